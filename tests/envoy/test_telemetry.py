"""Access logs and tracing as the mesh configuration asks for them, and what a proxy reports beside its view."""

from __future__ import annotations

import pytest

from tests.envoy.meshes import http, inbound_listeners, listeners, mesh_of, service
from tests.envoy.samples import ISTIO, inbound_key, mesh, outbound_key, snapshot
from tests.envoy.test_listeners_inbound import TARGETS
from tests.push.fixtures import scope_of, sidecar, view_in
from tests.push.fixtures import snapshot as whole_snapshot
from trierarch.config.mesh_config import AccessLogEncoding, DefaultProviders
from trierarch.config.tracing import EnvironmentTag, HeaderTag, LiteralTag
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE
from trierarch.push.steps import run_steps
from trierarch.push.telemetry import SILENT, Reporter, Telemetry, TracingSettings

WEB = service("web", "80/HTTP", "9000/TCP", address="10.0.0.7")
FILE, HTTP_SERVICE, TCP_SERVICE = "file", "http_grpc", "tcp_grpc_access_log"


def everything(settings, capabilities=None) -> dict[str, dict]:
    """All listeners of a workload."""
    changes = {} if capabilities is None else {"capabilities": capabilities}
    found = snapshot(settings=settings)
    outbound = listeners(mesh_of(WEB), outbound_key(**changes), found)
    return outbound | inbound_listeners(mesh_of(), inbound_key(targets=TARGETS, **changes), found)


def loggers(holder: dict) -> list[str]:
    """The loggers of a listener, a connection manager or a TCP proxy."""
    return [each["name"].rpartition(".")[2] for each in holder.get("access_log", ())]


def chains(listener: dict) -> list[dict]:
    """The last filter of every chain."""
    defaults = [listener["default_filter_chain"]] if "default_filter_chain" in listener else []
    return [http(chain) for chain in (*listener["filter_chains"], *defaults)]


def test_nothing_is_logged_unless_the_mesh_asks_for_it():
    """Istio's default is no access log."""
    for listener in everything(mesh()).values():
        assert loggers(listener) == []
        assert all(loggers(each) == [] for each in chains(listener))


def test_requests_and_connections_are_logged_but_not_those_that_go_round_in_circles():
    """Every chain but the black holes has the logger; what fits no chain is logged by the virtual listeners."""
    found = everything(mesh(access_log_file="/dev/stdout"))
    for name, listener in found.items():
        assert loggers(listener) == ([FILE] if name.startswith("virtual") else [])
        for each in chains(listener):
            assert loggers(each) == ([] if each.get("cluster") == "BlackHoleCluster" else [FILE])
    (log,) = found["virtualInbound"]["access_log"]
    assert log["filter"] == {"response_flag_filter": {"flags": ["NR"]}}


def test_the_log_of_listeners_can_be_left_out():
    """The others stay."""
    found = everything(mesh(access_log_file="/dev/stdout", disable_envoy_listener_log=True))
    assert loggers(found["virtualInbound"]) == []
    assert loggers(chains(found["virtualInbound"])[-1]) == [FILE]


def test_the_log_service_is_for_istios_proxy():
    """Only its bootstrap has the cluster; places have loggers of their own kind, and names by which they are known."""
    settings = mesh(enable_envoy_access_log_service=True)
    found = everything(settings, ISTIO)
    assert loggers(found["virtualOutbound"]) == [TCP_SERVICE]
    by_kind = {("http" if "http_filters" in each else "tcp"): each for each in chains(found["0.0.0.0_80"])}
    assert [loggers(by_kind[kind]) for kind in ("http", "tcp")] == [[HTTP_SERVICE], [TCP_SERVICE]]
    names = [
        holder["access_log"][0]["typed_config"]["common_config"]["log_name"]
        for holder in (by_kind["http"], by_kind["tcp"], found["virtualOutbound"])
    ]
    assert names == ["http_envoy_accesslog", "tcp_envoy_accesslog", "listener_envoy_accesslog"]
    assert loggers(everything(settings)["virtualOutbound"]) == []


def log_format(**settings) -> dict:
    """The format of the log file."""
    found = everything(mesh(access_log_file="/log", **settings))
    (log,) = found["virtualOutbound"]["access_log"]
    return log["typed_config"]["log_format"]


def test_text_is_a_line_for_each_entry():
    """A newline is added if there is none; without a format it is Istio's."""
    own = {"text_format_source": {"inline_string": "%PROTOCOL%\n"}}
    assert log_format(access_log_format="%PROTOCOL%") == log_format(access_log_format="%PROTOCOL%\n") == own
    default = log_format()["text_format_source"]["inline_string"]
    assert default.startswith('[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" ')
    assert default.endswith(" %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n")


def test_json_is_what_the_user_wrote():
    """An object, nested as deeply as he likes; what is no object leaves the default, which has what the text has."""
    json = AccessLogEncoding.JSON
    own = log_format(access_log_encoding=json, access_log_format='{"a": {"b": "%PROTOCOL%"}}')
    assert own == {"json_format": {"a": {"b": "%PROTOCOL%"}}, "json_format_options": {}}
    for text in ("", "{", '["a"]', "[" * 100_000):
        fields = log_format(access_log_encoding=json, access_log_format=text)["json_format"]
        assert len(fields) == 24
        assert fields["upstream_cluster"] == "%UPSTREAM_CLUSTER_RAW%"


@pytest.mark.parametrize("encoding", AccessLogEncoding)
def test_envoy_is_told_of_the_command_that_is_not_its_own(encoding):
    """A path without its query needs an extension."""
    text = '{"path": "%REQ_WITHOUT_QUERY(:PATH)%"}'
    (formatter,) = log_format(access_log_encoding=encoding, access_log_format=text)["formatters"]
    assert formatter["name"] == "envoy.formatter.req_without_query"


def test_default_providers_take_the_place_of_the_file():
    """What they do is told by Telemetry."""
    settings = mesh(access_log_file="/log", default_providers=DefaultProviders(access_logging=("x",)))
    assert loggers(everything(settings)["virtualInbound"]) == []


# --- tracing ---------------------------------------------------------------------------------------------------------
REPORTER = Reporter("web", "v1", "mesh", "shop", "Kubernetes")


def tracing(telemetry: Telemetry) -> dict | None:
    """The block of an outbound connection manager."""
    found = listeners(mesh_of(WEB), outbound_key(telemetry=telemetry))["0.0.0.0_80"]
    return http(found["filter_chains"][0]).get("tracing")


def test_what_is_traced_and_how_it_is_tagged():
    """All that clients ask for, a share of the others; the user's tags among Istio's, by name."""
    tags = (
        ("z", LiteralTag(value="1")),
        ("a", EnvironmentTag(name="B")),
        ("h", HeaderTag(name="x", default_value="y")),
    )
    found = tracing(Telemetry(TracingSettings(12.5, tags, 64), REPORTER))
    custom = found.pop("custom_tags")
    assert found == {
        "client_sampling": {"value": 100.0},
        "random_sampling": {"value": 12.5},
        "overall_sampling": {"value": 100.0},
        "max_path_tag_length": 64,
    }
    assert [tag["tag"] for tag in custom] == [
        "a",
        "h",
        "istio.authorization.dry_run.allow_policy.name",
        "istio.authorization.dry_run.allow_policy.result",
        "istio.authorization.dry_run.deny_policy.name",
        "istio.authorization.dry_run.deny_policy.result",
        "istio.canonical_revision",
        "istio.canonical_service",
        "istio.cluster_id",
        "istio.mesh_id",
        "istio.namespace",
        "z",
    ]
    assert custom[:2] == [
        {"tag": "a", "environment": {"name": "B"}},
        {"tag": "h", "request_header": {"name": "x", "default_value": "y"}},
    ]
    assert custom[6:8] == [
        {"tag": "istio.canonical_revision", "literal": {"value": "v1"}},
        {"tag": "istio.canonical_service", "literal": {"value": "web"}},
    ]


def test_without_a_reporter_there_are_only_the_users_tags():
    """And without tracing there is no block at all."""
    assert tracing(Telemetry(TracingSettings())).get("custom_tags", []) == []
    assert tracing(SILENT) is None


# --- what a proxy reports --------------------------------------------------------------------------------------------
NAMED = {"service.istio.io/canonical-name": "web", "service.istio.io/canonical-revision": "v1"}


def telemetry(*given: str, **metadata) -> Telemetry:
    """What a proxy with this metadata reports in a mesh."""
    return view_in(sidecar(**metadata), whole_snapshot(*given)).inbound.telemetry


def test_the_reporter_is_named_by_labels_and_metadata():
    """Istio's names for what is not known."""
    assert telemetry().reporter == Reporter("unknown", "latest", "unknown", "shop", "Kubernetes")
    assert telemetry(LABELS=NAMED, MESH_ID="m", CLUSTER_ID="c").reporter == Reporter("web", "v1", "m", "shop", "c")


def test_settings_are_the_proxys_own_else_the_meshs():
    """A proxy configuration in the metadata replaces the mesh's as a whole; no sampling means one percent."""
    own = {"tracing": {"sampling": 60, "customTags": {"b": {"literal": {"value": "1"}}, "a": {}}}}
    config = "MeshConfig mesh: {defaultConfig: {tracing: {sampling: 5, maxPathTagLength: 9, enableIstioTags: false}}}"
    assert telemetry().tracing == TracingSettings(1.0)
    assert telemetry(config) == Telemetry(TracingSettings(5.0, (), 9, names_reporter=False))
    assert telemetry(config, PROXY_CONFIG={}).tracing == TracingSettings(1.0)
    assert telemetry(config, PROXY_CONFIG=own).tracing == TracingSettings(60.0, (("b", LiteralTag(value="1")),))


@pytest.mark.parametrize("config", ["enableTracing: false", "defaultProviders: {tracing: [x]}"])
def test_nothing_is_traced_if_the_mesh_does_not_want_it(config):
    """Or if it leaves that to providers."""
    assert telemetry(f"MeshConfig mesh: {{{config}}}") == SILENT


def test_proxies_that_differ_in_what_they_report_share_all_but_their_listeners():
    """Clusters, endpoints and routes are the same sets; only listeners tell of the reporter."""
    context = whole_snapshot("Service shop/web: {clusterIP: 10.0.0.7, ports: [{name: http, port: 80}]}")
    memo, parts = Memo(1000), PartCache()

    def sets(name: str):
        proxy = sidecar(LABELS=NAMED | {"service.istio.io/canonical-name": name})
        view, scope = view_in(proxy, context), scope_of(proxy, context)
        types = (CLUSTER, ENDPOINT, ROUTE, LISTENER)
        return [run_steps(generate(view, scope, context, url, memo, parts)).parts for url in types]

    one, another = sets("one"), sets("another")
    assert one[0][:2] == another[0][:2]  # the third part are the clusters of the workload itself
    assert one[1:3] == another[1:3]
    assert one[3] != another[3]
