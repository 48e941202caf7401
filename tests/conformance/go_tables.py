"""Rows of known answers from tables of istiod's own tests, `go-tables/`: how to find them, and Istio's values as ours.

Only rows that were read whole are used. A value is in proto3-JSON with names in lower camel case; what is a whole Istio
object here is decoded by the product's own decoder, so what is tested is what a user's file would do.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.cases import CONFIG_CLUSTER, ORIGIN, shared_folder
from trierarch.config.decode import Decoded, decode_mesh_config, decode_object
from trierarch.config.kinds import KINDS
from trierarch.push.mesh import Mesh
from trierarch.push.model import (
    UNSPECIFIED_ADDRESS,
    Hostname,
    PortProtocol,
    Registry,
    Resolution,
    Service,
    ServicePort,
    TrafficDistribution,
)
from trierarch.push.proxy import IPMode
from trierarch.push.traffic import MergedRule
from trierarch.push.visibility import exported_to

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.mesh_config import MeshConfig
    from trierarch.config.objects import AnyObject

Json = dict[str, Any]

FOLDERS = [root / "go-tables" for root in (shared_folder() / "conformance", shared_folder())]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[0])

_DISTRIBUTIONS = {
    "TrafficDistributionAny": TrafficDistribution.ANY,
    "TrafficDistributionPreferSameZone": TrafficDistribution.SAME_ZONE,
    "TrafficDistributionPreferSameNode": TrafficDistribution.SAME_NODE,
}


@cache
def _tables(file: str) -> list[Json]:
    path = FOLDER / file
    return json.loads(path.read_text())["tables"] if path.is_file() else []


def _whole(file: str, function: str | None, table: str) -> list[Json]:
    return [
        row
        for each in _tables(file)
        if each["func"] == function and table in ("", each["table"])
        for row in each["rows"]
        if row["complete"] and isinstance(row["row"], dict)
    ]


def whole_rows(file: str, function: str | None, table: str) -> list[Json]:
    """The rows by themselves: objects that rows of another table are about."""
    return [row["row"] for row in _whole(file, function, table)]


def rows(file: str, function: str | None, table: str = "") -> pytest.MarkDecorator:
    """Parametrizes a test by `row` with the whole rows of a function's tables; skips it if they are not there."""
    found = [
        pytest.param(row["row"], id=str(row.get("key") or row["row"].get("name") or row["line"]))
        for row in _whole(file, function, table)
    ]
    absent = pytest.param(None, marks=pytest.mark.skip(reason=f"no tables at {FOLDER}: set TRIERARCH_CASES"))
    return pytest.mark.parametrize("row", found or [absent])


def plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """A value without the names of its Go types, and without what is null: as if nobody had written it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if not key.startswith("$") and item is not None}
    return [plain(item) for item in value] if isinstance(value, list) else value


def istio_object(kind: str, spec: Json, name: str = "it", namespace: str = "default") -> AnyObject:
    """An object with this specification."""
    version = KINDS[kind].api_versions[0]
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
    answer = decode_object({**document, "spec": plain(spec)}, ORIGIN, CONFIG_CLUSTER)
    assert isinstance(answer, Decoded), answer
    return answer.object


def snake_case(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Proto-JSON with the original field names."""
    if isinstance(value, dict):
        return {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake_case(item) for key, item in value.items()
        }
    return [snake_case(item) for item in value] if isinstance(value, list) else value


def mesh_config(settings: Json | None) -> MeshConfig:
    """MeshConfig with these settings."""
    answer = decode_mesh_config(plain(settings or {}), ORIGIN, CONFIG_CLUSTER)
    assert isinstance(answer, Decoded), answer
    return answer.object.spec


def service(row: Json) -> Service:
    """A service of the model. One that says nothing of who sees it is seen by everybody."""
    attributes = row.get("attributes") or {}
    registry = Registry.KUBERNETES if attributes.get("serviceRegistry") == "Kubernetes" else Registry.EXTERNAL
    aliases = attributes.get("aliases") or ()
    auto = (row.get("autoAllocatedIPv4Address"), row.get("autoAllocatedIPv6Address"))
    distribution = (attributes.get("k8sAttributes") or {}).get("trafficDistribution", "TrafficDistributionAny")
    return Service(
        hostname=row.get("hostname") or "",
        namespace=attributes.get("namespace") or "",
        name=attributes.get("name") or row.get("hostname") or "",
        registry=registry,
        resolution=_resolution(row.get("resolution")),
        ports=tuple(_port(port) for port in row.get("ports") or ()),
        addresses={key: tuple(each) for key, each in (row.get("clusterVIPs") or {}).get("addresses", {}).items()},
        default_address=row.get("defaultAddress") or UNSPECIFIED_ADDRESS,
        auto_addresses=tuple(filter(None, auto)),
        export_to=exported_to(tuple(attributes.get("exportTo") or ()), attributes.get("namespace") or "", Mesh()),
        aliases=tuple(Hostname(each["namespace"], each["hostname"]) for each in aliases),
        labels=attributes.get("labels") or {},
        traffic_distribution=_DISTRIBUTIONS[distribution],
    )


def _resolution(name: str | None) -> Resolution:
    return Resolution(name or "ClientSideLB")


def _port(port: Json) -> ServicePort:
    return ServicePort(port.get("port", 0), port.get("name", ""), PortProtocol(port.get("protocol") or "TCP"))


def rule_of(policy: Json | None, **fields: object) -> MergedRule:
    """A DestinationRule with this traffic policy, as the snapshot holds it."""
    source = istio_object("DestinationRule", {"host": "it.example", "trafficPolicy": policy, **fields})
    return MergedRule(
        host="it.example", namespace="default", spec=source.spec, sources=(source,), export_to=frozenset({"*"})
    )


def ip_mode(addresses: Iterable[str]) -> IPMode:
    """The families of addresses."""
    modes = {":" in address for address in addresses}
    return IPMode.DUAL if len(modes) == 2 else IPMode.IPV6 if True in modes else IPMode.IPV4
