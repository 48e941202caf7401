"""Decoding: what documents mean, what is remarked, and that nothing users write raises."""

from __future__ import annotations

from math import inf

import pytest

from tests.config.reading import ORIGIN, admitted, document, verdict
from trierarch.config.admission import Admitted
from trierarch.config.common import AnyValue, Destination, Exact, PortSelector, Prefix, Regex
from trierarch.config.decode import (
    Decoded,
    UnknownKind,
    decode_mesh_config,
    decode_mesh_networks,
    decode_object,
)
from trierarch.config.destination_rule import ConsistentHash, HashHttpCookie, RingHash, SimpleLoadBalancer
from trierarch.config.findings import Rejected
from trierarch.config.kinds import KINDS
from trierarch.config.mesh_config import MeshConfig, MeshOutboundMode
from trierarch.config.scalars import parse_duration
from trierarch.config.virtual_service import FixedDelay, RedirectPortSelection, TextBody


def rejection(kind: str, text: str = "", /, **fields: object) -> tuple[str, str, str]:
    """Path, reason and hint of a document that cannot be decoded."""
    rejected = decode_object(document(kind, text, **fields), ORIGIN, "Kubernetes")
    assert isinstance(rejected, Rejected), rejected
    return rejected.path, rejected.reason, rejected.hint


def remarks(kind: str, text: str, /, **fields: object) -> list[tuple[str, str]]:
    """Paths and hints of what is remarked about a document in force."""
    decoded = decode_object(document(kind, text, **fields), ORIGIN, "Kubernetes")
    assert isinstance(decoded, Decoded)
    return [(each.path, each.hint) for each in decoded.remarks]


def test_virtual_service():
    """Names become snake case, durations seconds, oneofs classes, lists tuples; what is absent has its default."""
    spec = admitted(
        "VirtualService",
        """
        hosts: [reviews]
        http:
        - match:
          - uri: {prefix: /api}
            headers: {b: {exact: x}, a: {regex: "[0-9]+"}, c: {}}
          route: [{destination: {host: reviews, subset: v2, port: {number: 9080}}, weight: 25}]
          timeout: 1.5s
          retries: {attempts: 3, perTryTimeout: 250ms, retryRemoteLocalities: false}
          fault: {delay: {fixedDelay: 1m30s, percentage: {value: 0.5}}}
        - redirect: {uri: /new, derivePort: FROM_REQUEST_PORT}
        - directResponse: {status: 503, body: {string: sorry}}
        """,
    ).spec
    first, second, third = spec.http
    (match,) = first.match
    assert match.uri == Prefix("/api")
    assert list(match.headers.items()) == [("a", Regex("[0-9]+")), ("b", Exact("x")), ("c", AnyValue())]
    assert first.route[0].destination == Destination(host="reviews", subset="v2", port=PortSelector(number=9080))
    assert (first.timeout, first.retries.per_try_timeout, first.retries.backoff) == (1.5, 0.25, None)
    assert (first.retries.retry_remote_localities, first.retries.retry_ignore_previous_hosts) == (False, None)
    assert (first.fault.delay.kind, first.fault.delay.percentage.value) == (FixedDelay(90.0), 0.5)
    assert second.redirect.target_port is RedirectPortSelection.FROM_REQUEST_PORT
    assert third.direct_response.body == TextBody("sorry")
    assert (first.name, first.mirrors, first.cors_policy) == ("", (), None)


def test_destination_rule():
    """A oneof beside other fields takes one attribute; a oneof in a oneof is a class in a class."""
    rule = """
        host: reviews
        trafficPolicy: {loadBalancer: {simple: LEAST_REQUEST}}
        subsets:
        - name: sticky
          trafficPolicy:
            loadBalancer: {consistentHash: {httpCookie: {name: c, ttl: 0s}, ringHash: {minimumRingSize: "9"}}}
        - name: shy
          trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3, outlierDetectionHttpErrorCodes: ["503", 502]}}
        """
    spec = admitted("DestinationRule", rule).spec
    assert spec.traffic_policy.load_balancer.policy is SimpleLoadBalancer.LEAST_REQUEST
    sticky, shy = (subset.traffic_policy for subset in spec.subsets)
    policy = sticky.load_balancer.policy
    assert isinstance(policy, ConsistentHash)
    assert (policy.key, policy.algorithm) == (HashHttpCookie(name="c", ttl=0.0), RingHash(minimum_ring_size=9))
    assert shy.outlier_detection.consecutive_5xx_errors == 3
    assert shy.outlier_detection.outlier_detection_http_error_codes == (503, 502)


def test_kubernetes_kinds_are_read_in_part():
    """Fields are taken from where they stand; the many others are no remarks."""
    pod = admitted(
        "Pod",
        """
        nodeName: n1
        containers: [{name: app, image: x, env: [{name: A}], ports: [{name: http, containerPort: 8080}]}]
        """,
        status={"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}], "qosClass": "Burstable"},
        metadata={"name": "p", "ownerReferences": [{"kind": "ReplicaSet", "name": "p-1", "uid": "u"}]},
    )
    assert pod.key.namespace == "default"
    assert (pod.spec.node_name, pod.spec.pod_ip, [each.ip for each in pod.spec.pod_ips]) == (
        "n1",
        "10.0.0.1",
        ["10.0.0.1", "::1"],
    )
    assert pod.spec.containers[0].ports[0].container_port == 8080
    assert pod.spec.owner_references[0].kind == "ReplicaSet"


def test_target_ports_are_numbers_or_names():
    """A Service's targetPort keeps what it was written as."""
    ports = admitted(
        "Service", "ports: [{port: 80, targetPort: 8080}, {port: 81, targetPort: http}, {port: 82}]"
    ).spec.ports
    assert [port.target_port for port in ports] == [8080, "http", None]


def test_cluster_scoped_kinds_have_no_namespace():
    """Whatever a Node's metadata says."""
    assert admitted("Node", metadata={"name": "n", "namespace": "x"}).key.namespace == ""


def test_objects_without_creation_time():
    """Kubernetes objects count as the oldest, Istio objects as the newest; a time is seconds since the epoch."""
    assert admitted("Service").created == -inf
    assert admitted("WorkloadEntry", "address: 1.2.3.4").created == inf
    dated = {"name": "it", "creationTimestamp": "1970-01-01T00:01:00.5Z"}
    assert admitted("Service", metadata=dated).created == 60.5


def test_status_is_part_of_an_object():
    """Allocated addresses and health conditions stand in the status."""
    entry = admitted(
        "ServiceEntry",
        "{hosts: [a.b], resolution: DNS}",
        status={"addresses": [{"value": "240.240.0.1", "host": "a.b"}], "conditions": []},
    )
    assert entry.spec.allocated_addresses[0].value == "240.240.0.1"
    health = {"conditions": [{"type": "Healthy", "status": "True"}]}
    assert admitted("WorkloadEntry", "address: 1.2.3.4", status=health).spec.conditions[0].status == "True"


def test_unknown_fields_are_remarked_with_the_nearest_name():
    """The object stays in force; snake case is a known spelling; a field beside spec is told to belong there."""
    text = "{hosts: [a.b], http: [{rout: [], retries: {attempts: 1, per_try_timeout: 1s}}], export: [x]}"
    assert remarks("VirtualService", text, gateways=["x"]) == [
        ("spec.http[0].rout", "did you mean route?"),
        ("spec.export", "did you mean exportTo?"),
        ("gateways", "did you mean spec.gateways?"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "reason", "hint"),
    [
        ("hosts: a.b", "spec.hosts", 'expected a list, found the string "a.b"', ""),
        ("hosts: [true]", "spec.hosts[0]", "expected a string, found the boolean true", 'quote it: "true"'),
        (
            "http: [{route: [{weight: 1.5}]}]",
            "spec.http[0].route[0].weight",
            "expected an integer, found the number 1.5",
            "",
        ),
        (
            "http: [{timeout: 5}]",
            "spec.http[0].timeout",
            "expected a duration, found the number 5",
            'write it with a unit: "5s"',
        ),
        (
            "http: [{match: [{uri: {exact: a, prefix: b}}]}]",
            "spec.http[0].match[0].uri.prefix",
            "only one of exact, prefix, regex may be set",
            "",
        ),
        (
            "http: [{match: [{headers: {x: 1}}]}]",
            "spec.http[0].match[0].headers[x]",
            "expected an object, found the number 1",
            "",
        ),
        ("http: [{match: [{port: -1}]}]", "spec.http[0].match[0].port", "-1 is not between 0 and 4294967295", ""),
        ("{exportTo: [a], export_to: [b]}", "spec.exportTo", "the field is there twice, in two spellings", ""),
        (
            "http: [{corsPolicy: {unmatchedPreflights: FORWRD}}]",
            "spec.http[0].corsPolicy.unmatchedPreflights",
            'the string "FORWRD" is not a known value',
            "did you mean FORWARD?",
        ),
    ],
)
def test_what_cannot_be_decoded_says_where_and_why(text: str, path: str, reason: str, hint: str):
    """Path, reason and, where there is one, what would be right."""
    assert rejection("VirtualService", text) == (path, reason, hint)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"apiVersion": None}, "apiVersion"),
        ({"kind": 3}, "kind"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": {"name": 5}}, "metadata.name"),
        ({"metadata": {"name": "x", "labels": {"version": 1}}}, "metadata.labels[version]"),
        ({"metadata": {"name": "x", "creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
        ({"spec": []}, "spec"),
    ],
)
def test_malformed_envelopes(fields: dict[str, object], path: str):
    """What all objects have is checked alike."""
    assert rejection("VirtualService", **fields)[0] == path


def test_unknown_kinds():
    """A kind or a version that is not in the table is neither accepted nor wrong."""
    assert isinstance(verdict("ConfigMap"), UnknownKind)
    assert isinstance(verdict("Sidecar", apiVersion="networking.istio.io/v9"), UnknownKind)


def test_all_versions_of_a_kind_mean_the_same():
    """networking.istio.io has three."""
    for version in KINDS["Sidecar"].api_versions:
        assert isinstance(verdict("Sidecar", "egress: [{hosts: [./*]}]", apiVersion=version), Admitted)


def test_digest_covers_what_is_read():
    """The order of keys, unknown fields and what nobody reads do not matter; labels, age and spec do."""
    base = admitted("Service", "{clusterIP: 10.0.0.1, selector: {a: x, b: y}}").digest
    same = admitted("Service", "{selector: {b: y, a: x}, clusterIP: 10.0.0.1, sessionAffinity: None}")
    assert same.digest == base
    others = [
        admitted("Service", "{clusterIP: 10.0.0.2, selector: {a: x, b: y}}"),
        admitted(
            "Service", "{clusterIP: 10.0.0.1, selector: {a: x, b: y}}", metadata={"name": "it", "labels": {"l": "1"}}
        ),
        admitted(
            "Service",
            "{clusterIP: 10.0.0.1, selector: {a: x, b: y}}",
            metadata={"name": "it", "creationTimestamp": "2024-01-01T00:00:00Z"},
        ),
    ]
    assert len({base, *(each.digest for each in others)}) == 4


def test_mesh_config_is_laid_over_the_defaults():
    """Fields that are given replace their defaults whole; providers are merged by name."""
    document = {
        "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
        "trustDomainAliases": ["b", "a", "b"],
        "defaultConfig": {"concurrency": 3, "proxyMetadata": {"A": "1"}},
        "meshMTLS": {"minProtocolVersion": "TLSV1_3"},
        "extensionProviders": [
            {"name": "envoy", "envoyFileAccessLog": {"path": "/log", "logFormat": {"labels": {"a": {"b": "%C%"}}}}},
            {"name": "opa", "envoyExtAuthzGrpc": {"service": "opa.policy", "port": 9191}},
        ],
    }
    decoded = decode_mesh_config(document, ORIGIN, "Kubernetes")
    assert isinstance(decoded, Decoded)
    mesh = decoded.object.spec
    assert decoded.remarks == ()
    assert decoded.object.key == ("Kubernetes", "MeshConfig", "", "mesh")
    assert mesh.outbound_traffic_policy.mode is MeshOutboundMode.REGISTRY_ONLY
    assert (mesh.connect_timeout, mesh.trust_domain_aliases) == (10.0, ("a", "b"))
    assert (mesh.default_config.concurrency, mesh.default_config.status_port) == (3, 15020)
    assert mesh.mesh_mtls.min_protocol_version == "TLSV1_3"
    assert [each.name for each in mesh.extension_providers] == ["prometheus", "stackdriver", "envoy", "opa"]
    assert mesh.extension_providers[2].provider.log_format.value == {"a": {"b": "%C%"}}


def test_an_empty_mesh_config_is_the_default():
    """The defaults are networking.md §0.3's."""
    decoded = decode_mesh_config({}, ORIGIN, "Kubernetes")
    assert isinstance(decoded, Decoded)
    default = decode_mesh_config({"connectTimeout": "10s", "enableTracing": True}, ORIGIN, "Kubernetes")
    assert isinstance(default, Decoded)
    assert decoded.object.digest == default.object.digest
    assert MeshConfig().outbound_traffic_policy.mode is MeshOutboundMode.ALLOW_ANY


def test_mesh_networks():
    """Networks by name; an unknown field is remarked."""
    text = {"networks": {"n1": {"endpoints": [{"fromRegistry": "k"}], "gateways": [{"address": "1.1.1.1", "prt": 1}]}}}
    decoded = decode_mesh_networks(text, ORIGIN, "Kubernetes")
    assert isinstance(decoded, Decoded)
    assert decoded.object.spec.networks["n1"].gateways[0].gateway.value == "1.1.1.1"
    assert [(each.path, each.hint) for each in decoded.remarks] == [
        ("networks[n1].gateways[0].prt", "did you mean port?")
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("1.5s", 1.5), ("-1s", -1), ("100ms", 0.1), ("1h2m3s", 3723), ("0", 0), ("1µs", 1e-6), (".5m", 30)],
)
def test_durations(text: str, seconds: float):
    """Protobuf's spelling and Go's."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "1d", "5sec", "\u0665s", "1e3s", "1s1"])
def test_not_durations(text: str):
    """Everything else is none."""
    assert parse_duration(text) is None
