"""A server under guard: `web`, which policies protect, and the clients who try to get in, all with mutual TLS.

    web    in `shop`: one port for HTTP, one where the sidecars see only TCP; policies are attached here
    front  in `shop`, `back` in `bank`: clients, each known by its certificate; `front` speaks through its sidecar at
           its own address, and so does `back`
    guard  an external authorizer, outside of the mesh, asked over HTTP: it lets in whoever has the header `x-pass`
    judge  another one, asked over gRPC: it lets in `front`

Whoever connects to `web` directly is a stranger, without a certificate. A case's policies are the only ones.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import yaml

from examples.shop.processes import ControlPlane, wait_until
from tests.conformance.yaml_documents import load_documents
from tests.e2e.authorizers import serve_guard, serve_judge
from tests.e2e.certified import CertifiedSidecar
from tests.e2e.envoy_admin import read_statistics
from tests.e2e.mesh_objects import Document, build_object, build_pod, build_slice
from tests.e2e.shops import next_network
from tests.e2e.traffic.checks import HTTP_PORT, TCP_PORT, Answer, get
from tests.e2e.traffic.client import send_all
from tests.e2e.traffic.programs import Programs
from tests.envoy.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from tests.e2e.traffic.checks import Case, Check

ISTIO, SECURITY = "networking.istio.io/v1", "security.istio.io/v1"
WEB = "web.shop.svc.cluster.local"
WEB_PORT = 8081
"""Where `web` takes requests, from whomever."""

NUMBERS = {"front": 1, "web": 2, "back": 3, "guard": 4, "judge": 5}
NAMESPACES = {"front": "shop", "web": "shop", "back": "bank"}
_GUARD_PORT, _JUDGE_PORT, _HTTP_PROGRAM, _TCP_PROGRAM = 8000, 9191, 18081, 19000

CLOSED = 0
"""Stands for the status of a request on a connection that is closed instead."""

SOON = 10.0
"""Seconds within which a policy is in force everywhere."""

MESH_CONFIG = f"""
trustDomainAliases: [old.example]
extensionProviders:
- name: guard
  envoyExtAuthzHttp:
    service: guard.example
    port: {_GUARD_PORT}
    includeRequestHeadersInCheck: [x-pass]
    headersToUpstreamOnAllow: [x-known-as]
- name: judge
  envoyExtAuthzGrpc: {{service: judge.example, port: {_JUDGE_PORT}}}
"""


class Guarded:
    """The running pieces; all end with `stack`. Logs are in `folder`."""

    def __init__(self, folder: Path, envoy: Path, stack: ExitStack) -> None:
        self.folder = folder
        network = next_network()
        self.addresses = {name: f"{network}.{number}" for name, number in NUMBERS.items()}
        self._config = folder / "mesh"
        self._config.mkdir()
        self._write("mesh.yaml", yaml.safe_dump_all(self._build_mesh()))
        (folder / "settings.yaml").write_text(MESH_CONFIG)
        self._start_programs(stack)
        flags = ("--mesh-config", str(folder / "settings.yaml"))
        self.control_plane = stack.enter_context(ControlPlane(self._config, folder / "trierarch.log", network, flags))
        self.control_plane.wait_until_ready()
        authority = Authority()
        self.sidecars = {
            app: stack.enter_context(
                CertifiedSidecar(
                    envoy,
                    self.control_plane.xds,
                    folder,
                    authority,
                    app=app,
                    namespace=namespace,
                    address=self.addresses[app],
                )
            )
            for app, namespace in NAMESPACES.items()
        }
        for client in ("front", "back"):
            wait_until(f"{client} gets in", lambda by=client: not self._complaints(get(by=by, host=WEB)))

    def settle(self, case: Case) -> None:
        """Let the policies of a case be in force: `web` has acknowledged them, and no connection goes by older ones."""
        documents = (_completed(each) for each in load_documents(case.mesh))
        edited_at = self._write("policies.yaml", yaml.safe_dump_all(documents))
        self.control_plane.wait_for_ack(edited_at, self.sidecars["web"].id)
        wait_until("older connections have ended", lambda: not any(self._draining().values()))

    def complaints(self, case: Case) -> list[str]:
        """What is not as expected, as soon as everything is or is not for too long."""
        try:
            wait_until(str(case), lambda: not self._try(case), SOON)
        except TimeoutError:
            return self._try(case)
        return self._refusals()

    def _try(self, case: Case) -> list[str]:
        return [complaint for check in case.checks for complaint in self._complaints(check)]

    def _complaints(self, check: Check) -> list[str]:
        try:
            return check.complaints(send_all(check, self.addresses))
        except ConnectionError:
            return check.complaints([Answer(status=CLOSED)])

    def _draining(self) -> dict[str, int]:
        return read_statistics(self.sidecars["web"], "draining")

    def _refusals(self) -> list[str]:
        lines = [f"{line['object']}: {line['reason']}" for line in self.control_plane.logged("object_rejected")]
        for sidecar in self.sidecars.values():
            rejected = read_statistics(sidecar, "update_rejected")
            lines += [f"{sidecar.id}: {name} {count}" for name, count in rejected.items() if count]
        return lines

    def _write(self, name: str, text: str) -> float:
        """Put a file in place; returns the wall clock time before."""
        draft = self._config / f".{name}"
        draft.write_text(text)
        before = time.time()
        draft.rename(self._config / name)
        return before

    def _start_programs(self, stack: ExitStack) -> None:
        programs = Programs(stack)
        programs.serve_http("web", self.addresses["web"], _HTTP_PROGRAM)
        programs.serve_http("web", self.addresses["web"], _TCP_PROGRAM)
        serve_guard(stack, self.addresses["guard"], _GUARD_PORT)
        serve_judge(stack, self.addresses["judge"], _JUDGE_PORT, "/sa/front")

    # --- the mesh ----------------------------------------------------------------------------------------------------
    def _build_mesh(self) -> Iterator[Document]:
        ports = [
            {"name": "http", "port": HTTP_PORT, "targetPort": WEB_PORT},
            {"name": "tcp", "port": TCP_PORT, "targetPort": TCP_PORT},
        ]
        labels = {"app": "web", "security.istio.io/tlsMode": "istio"}
        web = build_pod("shop", "web-1", self.addresses["web"], labels, {"serviceAccountName": "web", "containers": []})
        yield web
        yield build_object("v1", "Service", "shop", "web", spec={"selector": {"app": "web"}, "ports": ports})
        yield build_slice("web", [{"name": "http", "port": WEB_PORT}, {"name": "tcp", "port": TCP_PORT}], [web])
        yield self._sidecar("web", {"ingress": [*self._ingress()]})
        for name in ("front", "back"):
            yield build_pod(NAMESPACES[name], f"{name}-1", self.addresses[name], {"app": name})
            yield self._sidecar(name, {"egress": [*self._egress(name)]})
        yield self._authorizer("guard", {"number": _GUARD_PORT, "name": "http", "protocol": "HTTP"})
        yield self._authorizer("judge", {"number": _JUDGE_PORT, "name": "grpc", "protocol": "GRPC"})

    def _authorizer(self, name: str, port: Document) -> Document:
        endpoints = [{"address": self.addresses[name]}]
        spec = {"hosts": [f"{name}.example"], "ports": [port], "resolution": "STATIC", "endpoints": endpoints}
        return build_object(ISTIO, "ServiceEntry", "shop", name, spec=spec)

    def _ingress(self) -> Iterator[Document]:
        for number, protocol, program in ((WEB_PORT, "HTTP", _HTTP_PROGRAM), (TCP_PORT, "TCP", _TCP_PROGRAM)):
            port = {"number": number, "protocol": protocol, "name": protocol.lower()}
            yield {"port": port, "defaultEndpoint": f"0.0.0.0:{program}"}

    def _egress(self, name: str) -> Iterator[Document]:
        for number, protocol in ((HTTP_PORT, "HTTP"), (TCP_PORT, "TCP")):
            port = {"number": number, "protocol": protocol, "name": protocol.lower()}
            yield {"bind": self.addresses[name], "port": port, "hosts": ["shop/*"]}

    def _sidecar(self, name: str, spec: Document) -> Document:
        selector = {"workloadSelector": {"labels": {"app": name}}}
        return build_object(ISTIO, "Sidecar", NAMESPACES[name], name, spec=selector | spec)


def _completed(document: Document) -> Document:
    """What cases leave out: their policies are in `shop`, for all of it."""
    metadata = {"namespace": "shop", **document["metadata"]}
    return {"apiVersion": SECURITY, "kind": "AuthorizationPolicy", **document, "metadata": metadata}
