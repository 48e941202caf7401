"""What is demanded of Kubernetes objects: an API server would not have let in the others."""

from __future__ import annotations

import pytest
import yaml

from tests.config.reading import verdict
from trierarch.config.admission import Admitted, Refused

ADDRESSES = ("10.0.0.1/24", "10.0.0.256", "web", "::g", " 10.0.0.1", "networking.istio.io/v1")


def reasons(kind: str, text: str) -> list[str]:
    """What is said about an object with these fields."""
    answer = verdict(kind, **yaml.safe_load(text))
    assert isinstance(answer, Admitted | Refused)
    return [each.reason for each in answer.findings]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Service", "{spec: {clusterIP: '%s', ports: [{port: 80}]}}"),
        ("Service", "{spec: {clusterIPs: [10.0.0.1, '%s'], ports: [{port: 80}]}}"),
        ("Service", "{spec: {externalIPs: ['%s'], ports: [{port: 80}]}}"),
        ("Service", "{spec: {ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{ip: '%s'}]}}}"),
        ("EndpointSlice", "{addressType: IPv4, endpoints: [{addresses: ['%s']}]}"),
        ("Endpoints", "{subsets: [{addresses: [{ip: '%s'}]}]}"),
        ("Endpoints", "{subsets: [{notReadyAddresses: [{ip: '%s'}]}]}"),
        ("Pod", "{status: {podIP: '%s'}}"),
        ("Pod", "{status: {podIPs: [{ip: '%s'}]}}"),
    ],
)
def test_addresses_must_be_addresses(kind: str, text: str) -> None:
    """Wherever an IP address is read nothing else may stand; both families may."""
    for address in ADDRESSES:
        assert reasons(kind, text % address) == [f'"{address}" is not an IP address']
    assert reasons(kind, text % "10.0.0.1") == reasons(kind, text % "fd00::1") == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Service", "{spec: {ports: [{port: %s}]}}"),
        ("Service", "{spec: {ports: [{port: 80, targetPort: %s}]}}"),
        ("EndpointSlice", "{endpoints: [], ports: [{port: %s}]}"),
        ("Endpoints", "{subsets: [{ports: [{port: %s}]}]}"),
        ("Pod", "{spec: {containers: [{ports: [{containerPort: %s}]}]}}"),
        ("Pod", "{spec: {initContainers: [{ports: [{containerPort: %s}]}]}}"),
    ],
)
def test_ports_must_be_ports(kind: str, text: str) -> None:
    """From 1 to 65535."""
    for number in (-1, 65_536, 2**31 - 1):
        assert reasons(kind, text % number) == [f"port {number} is not between 1 and 65535"]
    assert reasons(kind, text % 65_535) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Service", "{spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80, targetPort: http}]}}"),
        ("Service", "{spec: {type: ExternalName, externalName: example.com}}"),
        ("Service", "{spec: {ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{hostname: lb.example.com}]}}}"),
        ("EndpointSlice", "{addressType: FQDN, endpoints: [{addresses: [web.example.com]}]}"),
        ("EndpointSlice", "{endpoints: [{addresses: [10.0.0.1]}], ports: [{name: all}]}"),
        ("Pod", "{spec: {containers: [{name: app}]}, status: {phase: Pending}}"),
    ],
)
def test_what_may_be_absent_or_named(kind: str, text: str) -> None:
    """Headless Services, balancers and slices with names, ports by name, Pods without a place."""
    assert reasons(kind, text) == []


@pytest.mark.parametrize("name", ["\0", "a.b", "Web", "-a", "a" * 64])
def test_services_have_names_that_hosts_can_have(name: str) -> None:
    """Envoy would refuse the routes of all hosts for one that is none."""
    ports = {"spec": {"ports": [{"port": 80}]}}
    for metadata in ({"name": name, "namespace": "shop"}, {"name": "web", "namespace": name}):
        answer = verdict("Service", metadata=metadata, **ports)
        assert isinstance(answer, Refused)
        assert [each.path.rpartition(".")[0] for each in answer.findings] == ["metadata"]
