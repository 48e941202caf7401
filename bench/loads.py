"""What istiod's own benchmark loads cost here, those of sidecars: the snapshot, each type's first generation, an edit.

    TRIERARCH_CASES=DIR python bench/loads.py [--filter TEXT]

The loads are templates in DIR (`conformance/bench/templates`), rendered for as many services as istiod's benchmark has,
and its meshes of four networks. Each has two lines. In the first everything is new: the YAML is decoded, the snapshot
is built cold, and each type is generated for one proxy with nothing remembered. The second is an edit that brings one
service more: what has changed is decoded, the snapshot is built on the one before, and all types are generated again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from common.generating import Generator
from common.mesh import CLUSTER
from common.templates import render
from common.timing import timed, timed_call

from trierarch.config.folder import Folder, FolderState, update_folder
from trierarch.config.store import ConfigView
from trierarch.envoy.preparation import prepare_codec
from trierarch.envoy.types import CLUSTER as CDS
from trierarch.envoy.types import ENDPOINT, LISTENER, NAME_TABLE, ROUTE, TYPE_RULES
from trierarch.push.processors import ContextSettings, build_push_context
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.steps import run_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.push.context import PushContext

TYPES = (CDS, ENDPOINT, LISTENER, ROUTE, NAME_TABLE)
CLIENT = build_proxy(
    NodeInfo(
        id="sidecar~1.1.1.1~v0.default~default.example.org",
        metadata={
            "NAMESPACE": "default",
            "LABELS": {"istio.io/benchmark": "true"},
            "CLUSTER_ID": CLUSTER,
            "ISTIO_VERSION": "1.26.0",
            "DNS_CAPTURE": "true",
        },
    ),
    default_cluster=CLUSTER,
)
FOLDER = Folder(source="bench", cluster=CLUSTER)
FILE = "load.yaml"

GATEWAYS = """
{{- range $i := until .Networks }}
apiVersion: v1
kind: Service
metadata: {name: gateway-{{$i}}, namespace: istio-system, labels: {topology.istio.io/network: network-{{$i}}}}
spec: {type: LoadBalancer, externalIPs: [35.0.0.{{$i}}], ports: [{name: tls, port: 15443}]}
---
{{- end }}
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
{{- range $i := until .Services }}
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: foo-{{$i}}}
spec:
  hosts: [foo-{{$i}}.com]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints:
{{- range $j := until .Instances }}
  - address: 111.{{div $i 255}}.{{mod $i 255}}.{{mod $j 255}}
    network: network-{{mod $j 4}}
    labels: {security.istio.io/tlsMode: istio, number: n-{{$j}}}
{{- end }}
---
{{- end }}
"""
"""Services whose endpoints are in four networks, with a gateway each."""

NETWORKS = 4
SPREAD = ((1, 100), (10, 10), (100, 10), (1000, 1))
"""Endpoints of each service, and services."""


class Load(NamedTuple):
    """A template, and for how many services (and workloads, or endpoints of each service) it is rendered."""

    name: str
    text: str
    services: int
    instances: int

    def rendered(self, more: int) -> bytes:
        """The load, with so many services more."""
        numbers = {".Services": self.services + more, ".Instances": self.instances, ".Networks": NETWORKS}
        return render(self.text, numbers).encode()


def read_loads(folder: Path) -> Iterator[Load]:
    """The loads of sidecars."""
    tables = json.loads((folder / "cases.json").read_text())["tables"]
    for row in (*tables[".testCases"], *tables[".ndsCases"]):
        if row.get("proxyType", "sidecar") == "sidecar":
            text = (folder / "templates" / f"{row['name']}.yaml").read_text()
            yield Load(row["name"], text, row.get("services", 0), row.get("instances", 0))


def network_loads() -> Iterator[Load]:
    """Meshes of four networks."""
    for endpoints, services in SPREAD:
        yield Load(f"{endpoints} endpoints x {services}", GATEWAYS, services, endpoints)


def measure(load: Load) -> None:
    """Print the two lines of a load."""
    run = Run()
    _print(f"{load.name}, {load.services} services", run.take(load.rendered(0)))
    _print("  one more", run.take(load.rendered(1)))


class Run:
    """What is remembered between an edit and the next."""

    def __init__(self) -> None:
        self._state, self._view = FolderState(), ConfigView()
        self._context: PushContext | None = None
        self._generator = Generator()

    def take(self, content: bytes) -> list[float]:
        """Milliseconds of each stage when the file has this content now."""
        read = timed_call(lambda: run_steps(update_folder(FOLDER, self._state, {FILE: content})))
        self._state, change = read.result
        self._view, _ = self._view.apply(change.upserts)
        number = 1 if self._context is None else self._context.number + 1
        built = timed(lambda: build_push_context(self._view, ContextSettings(), self._context, number))
        self._context = built.result
        generated = [self._generator.time(CLIENT, built.result, url) for url in TYPES]
        return [read.total, built.total, *(each.total for each in generated)]


def _print(name: str, milliseconds: list[float]) -> None:
    print(f"{name:44}" + "".join(f"{each:10.1f}" for each in milliseconds), flush=True)


def main() -> int:
    """Measure the loads that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only loads whose name contains this")
    chosen = parser.parse_args().filter
    shared = Path(os.environ.get("TRIERARCH_CASES") or Path(__file__).parents[2] / "shared")
    folder = next((root / "bench" for root in (shared / "conformance", shared) if (root / "bench").is_dir()), None)
    if folder is None:
        print(f"no loads at {shared}: set TRIERARCH_CASES to where they are")
        return 0
    run_steps(prepare_codec())
    columns = ("decode", "snapshot", *(TYPE_RULES[url].short for url in TYPES))
    print(f"{'milliseconds of':44}" + "".join(f"{name:>10}" for name in columns))
    for load in (*read_loads(folder), *network_loads()):
        if chosen in load.name:
            measure(load)
    return 0


if __name__ == "__main__":
    sys.exit(main())
