"""Load assignments: which endpoints, in which groups, with which weights and priorities (networking.md §3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envoy.golden import check_golden
from tests.envoy.samples import (
    HTTP,
    ISTIO,
    TCP,
    endpoint,
    external,
    generated,
    mesh,
    outbound_key,
    planned_endpoints,
    rule,
    scope,
    service,
    snapshot,
    subset,
)
from trierarch.config.destination_rule import (
    ClientTls,
    ClientTlsMode,
    LoadBalancer,
    LocalityDistribute,
    LocalityFailover,
    LocalityLbSetting,
    OutlierDetection,
    SimpleLoadBalancer,
    TrafficPolicy,
    ZoneAwareLbSetting,
)
from trierarch.config.mesh_config import ClusterLocality, ServiceSettings
from trierarch.envoy.locality import Preference, Standpoint, apply_preference, group_by_locality
from trierarch.envoy.types import ENDPOINT
from trierarch.push.model import Health, Locality, Resolution, TrafficDistribution
from trierarch.push.proxy import Capabilities, ProxyType, SecretSource

WEB = "outbound|80||web.shop.svc.cluster.local"


def _assignments(services, endpoints, rules=(), *, settings=None, key=None):
    context = snapshot(services, endpoints, settings=settings)
    return generated(ENDPOINT, context, scope(services, rules), outbound=key)


def _web(endpoints, policy=None, *, settings=None, key=None, **changes):
    """The groups of the default cluster of service `web`."""
    web = service(**changes)
    rules = [rule(policy)] if policy is not None else []
    return _assignments([web], {web: endpoints}, rules, settings=settings, key=key)[WEB].get("endpoints", [])


def _addresses(groups):
    return [
        found["endpoint"]["address"].get("socket_address", {}).get("address", "pipe")
        for group in groups
        for found in group.get("lb_endpoints", [])
    ]


def test_a_service_in_two_localities():
    """The whole output: groups by locality, weights, health, a subset, a port that nobody serves."""
    web = service(ports=(HTTP, TCP))
    endpoints = [
        endpoint("10.1.0.1", locality=Locality("eu", "a"), weight=3, labels={"version": "v1"}),
        endpoint("10.1.0.2", locality=Locality("eu", "b"), health=Health.UNHEALTHY),
        endpoint("10.1.0.3", locality=Locality("eu", "a"), health=Health.UNKNOWN),
        endpoint("/run/app.sock", port=0, locality=Locality("eu", "a")),
    ]
    check_golden("endpoints_stock", _assignments([web], {web: endpoints}, [rule(subsets=[subset("v1", version="v1")])]))


def test_the_same_for_an_istio_proxy():
    """It is told which workload an endpoint is, and which endpoints speak Istio's mTLS."""
    web = service()
    labels = {"app": "web", "version": "v1"}
    endpoints = [
        endpoint("10.1.0.1", labels=labels, workload_name="web-v1", tls_mode="istio"),
        endpoint("10.1.0.2", workload_name="web-v0"),
        endpoint("10.1.0.3"),
    ]
    key = outbound_key(capabilities=Capabilities(istio=True, secrets=SecretSource.AGENT))
    check_golden("endpoints_istio", _assignments([web], {web: endpoints}, key=key))


def test_only_eds_clusters_have_assignments():
    """DNS clusters list their endpoints themselves, the original destination needs none."""
    dns, bare = external("dns.example"), service("bare", resolution=Resolution.PASSTHROUGH)
    passed = service()
    policy = TrafficPolicy(load_balancer=LoadBalancer(policy=SimpleLoadBalancer.PASSTHROUGH))
    assert _assignments([dns, bare, passed], {dns: [endpoint("dns.example")]}, [rule(policy)]) == {}


def test_a_service_without_endpoints_has_an_empty_assignment():
    """Envoy must be told that there is nothing, or it would wait."""
    assert _assignments([service()], {}) == {WEB: {"cluster_name": WEB}}


@pytest.mark.parametrize("health", [Health.TERMINATING, Health.DRAINING])
def test_endpoints_that_go_away_are_not_sent(health):
    """Unless the service keeps sessions while its endpoints drain (the label of networking.md §1.4)."""
    endpoints = [endpoint("10.1.0.1", health=health), endpoint("10.1.0.2")]
    assert _addresses(_web(endpoints)) == ["10.1.0.2"]
    kept = _web(endpoints, labels={"istio.io/persistent-session": "cookie"})
    assert _addresses(kept) == (["10.1.0.1", "10.1.0.2"] if health is Health.DRAINING else ["10.1.0.2"])
    renamed = mesh(features={"session_cookie_label": "seat"})
    assert _addresses(_web(endpoints, settings=renamed, labels={"seat": "cookie"})) == _addresses(kept)
    assert _addresses(_web(endpoints, settings=renamed, labels={"istio.io/persistent-session": "c"})) == ["10.1.0.2"]


@pytest.mark.parametrize(
    ("minimum", "features", "changes", "sent"),
    [
        (0, {}, {}, True),
        (40, {}, {}, False),
        (40, {"send_unhealthy": True}, {}, True),
        (40, {}, {"traffic_distribution": TrafficDistribution.SAME_ZONE}, True),
        (0, {"auto_send_unhealthy": False}, {}, False),
    ],
)
def test_unhealthy_endpoints_are_sent_unless_a_threshold_counts_them(minimum, features, changes, sent):
    """A health threshold would count them as hosts to choose from (networking.md §3.2, item 6)."""
    policy = TrafficPolicy(outlier_detection=OutlierDetection(min_health_percent=minimum))
    endpoints = [endpoint(health=Health.UNHEALTHY)]
    assert bool(_web(endpoints, policy, settings=mesh(features=features), **changes)) is sent


def test_a_node_local_service_is_reached_on_the_own_node_only():
    """And by a proxy that does not know its node not at all."""
    endpoints = [endpoint("10.1.0.1", node_name="n1"), endpoint("10.1.0.2", node_name="n2")]
    assert _addresses(_web(endpoints, node_local=True, key=outbound_key(node_name="n2"))) == ["10.1.0.2"]
    assert _web(endpoints, node_local=True) == []


def test_hosts_of_one_cluster_keep_to_it():
    """kube-system by default, and what the mesh's service settings say; the most specific host decides."""
    endpoints = [endpoint("10.1.0.1"), endpoint("10.2.0.1", cluster="remote")]
    local = ServiceSettings(hosts=("*.shop.svc.cluster.local",), settings=ClusterLocality(cluster_local=True))
    reachable = ServiceSettings(hosts=("web.shop.svc.cluster.local",), settings=ClusterLocality(cluster_local=False))
    assert _addresses(_web(endpoints)) == ["10.1.0.1", "10.2.0.1"]
    assert _addresses(_web(endpoints, settings=mesh(service_settings=(local,)))) == ["10.1.0.1"]
    assert _addresses(_web(endpoints, settings=mesh(service_settings=(local, reachable)))) == ["10.1.0.1", "10.2.0.1"]


def test_host_names_do_not_fit_into_eds():
    """A static service with a host name among its endpoints leaves it out; an IPv6 address is one."""
    endpoints = [endpoint("db.example"), endpoint("2001:db8::1"), endpoint("10.1.0.1")]
    assert _addresses(_web(endpoints)) == ["2001:db8::1", "10.1.0.1"]


def test_further_addresses_of_dual_stack_endpoints():
    """Where the switch is on, an endpoint is tried at all its addresses."""
    found = endpoint(addresses=("10.1.0.1", "2001:db8::1"))
    assert "additional_addresses" not in _web([found])[0]["lb_endpoints"][0]["endpoint"]
    dual = _web([found], settings=mesh(features={"dual_stack": True}))[0]["lb_endpoints"][0]["endpoint"]
    assert dual["additional_addresses"][0]["address"]["socket_address"]["address"] == "2001:db8::1"


def test_who_speaks_mtls_is_told_only_where_it_may_be_used():
    """Not to a proxy without certificates, and not where a rule sets a TLS mode of the user's own."""
    endpoints = [endpoint(tls_mode="istio")]
    key = outbound_key(capabilities=Capabilities(secrets=SecretSource.AGENT))
    simple = TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.SIMPLE))
    mutual = TrafficPolicy(tls=ClientTls(mode=ClientTlsMode.ISTIO_MUTUAL))
    match = {"filter_metadata": {"envoy.transport_socket_match": {"tlsMode": "istio"}}}
    assert "metadata" not in _web(endpoints)[0]["lb_endpoints"][0]
    assert "metadata" not in _web(endpoints, simple, key=key)[0]["lb_endpoints"][0]
    assert _web(endpoints, mutual, key=key)[0]["lb_endpoints"][0]["metadata"] == match


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ";;;;Kubernetes"),
        ({"workload_name": "web"}, "web;shop;web;;Kubernetes"),
        ({"workload_name": "web-v1", "labels": {"app": "web", "version": "v1"}}, "web-v1;shop;web;v1;Kubernetes"),
        ({"workload_name": "w", "labels": {"version": "latest"}}, "w;shop;w;;Kubernetes"),
        (
            {
                "workload_name": "w",
                "labels": {
                    "app": "a",
                    "service.istio.io/canonical-name": "c",
                    "service.istio.io/canonical-revision": "r",
                },
            },
            "w;shop;c;r;Kubernetes",
        ),
    ],
)
def test_workload_labels(changes, expected):
    """`workload;namespace;canonical name;canonical revision;cluster` (networking.md §3.1)."""
    groups = _web([endpoint(**changes)], key=outbound_key(capabilities=ISTIO))
    assert groups[0]["lb_endpoints"][0]["metadata"]["filter_metadata"]["istio"]["workload"] == expected


# --- weights and priorities ------------------------------------------------------------------------------------------
def _spread(*localities, **labels):
    """One endpoint in each locality, written `region/zone/subzone`."""
    return [
        endpoint(f"10.1.0.{number}", locality=Locality(*place.split("/")), labels=labels)
        for number, place in enumerate(localities, start=1)
    ]


def _priorities(groups):
    return {group.locality.label: group.priority for group in groups}


def _applied(setting, endpoints, place, *, outlier=True, labels=()):
    client = Standpoint(locality=Locality(*place.split("/")), labels=frozenset(labels))
    return apply_preference(group_by_locality(endpoints), Preference(setting), outlier, client)


def test_near_before_far():
    """Same subzone, zone, region, then the rest: without gaps in the numbers (networking.md §3.3)."""
    endpoints = _spread("r1/z1/s1", "r1/z1/s2", "r1/z2", "r2/z1")
    groups = _applied(LocalityLbSetting(), endpoints, "r1/z1/s1")
    assert _priorities(groups) == {"r1/z1/s1": 0, "r1/z1/s2": 1, "r1/z2": 2, "r2/z1": 3}
    assert _priorities(_applied(LocalityLbSetting(), endpoints[2:], "r1/z1/s1")) == {"r1/z2": 0, "r2/z1": 1}


def test_priorities_need_something_that_notices_failures():
    """Without outlier detection Envoy would never go on to the next priority."""
    groups = _applied(LocalityLbSetting(), _spread("r1/z1", "r2/z1"), "r1/z1", outlier=False)
    assert _priorities(groups) == {"r1/z1": 0, "r2/z1": 0}


def test_a_region_to_fail_over_to_comes_before_the_others():
    """Other regions are one level further away."""
    setting = LocalityLbSetting(failover=(LocalityFailover(from_="r1", to="r3"),))
    groups = _applied(setting, _spread("r1/z1", "r2/z1", "r3/z1"), "r1/z9")
    assert _priorities(groups) == {"r1/z1": 0, "r2/z1": 2, "r3/z1": 1}


def test_labels_in_order_of_importance():
    """The earlier the first difference, the later an endpoint is used; a label may be given a value."""
    setting = LocalityLbSetting(failover_priority=("tier", "version=v2"))
    endpoints = [
        endpoint("10.1.0.1", labels={"tier": "gold", "version": "v2"}),
        endpoint("10.1.0.2", labels={"tier": "gold", "version": "v1"}),
        endpoint("10.1.0.3", labels={"tier": "iron", "version": "v2"}),
    ]
    groups = _applied(setting, endpoints, "", labels=[("tier", "gold"), ("version", "v1")])
    assert [(group.priority, group.endpoints[0].addresses[0]) for group in groups] == [
        (0, "10.1.0.1"),
        (1, "10.1.0.2"),
        (2, "10.1.0.3"),
    ]


def test_another_network_is_further_than_anything():
    """As the first label, the network counts more than all others together."""
    setting = LocalityLbSetting(failover_priority=("topology.istio.io/network", "tier", "zone"))
    endpoints = [
        endpoint("10.1.0.1", labels={"topology.istio.io/network": "n2", "tier": "gold", "zone": "z"}),
        endpoint("10.1.0.2", labels={"topology.istio.io/network": "n1", "tier": "iron"}),
        endpoint("10.1.0.3", labels={"topology.istio.io/network": "n2", "tier": "iron"}),
    ]
    own = [("topology.istio.io/network", "n1"), ("tier", "gold"), ("zone", "z")]
    groups = _applied(setting, endpoints, "", labels=own)
    assert {group.endpoints[0].addresses[0]: group.priority for group in groups} == {
        "10.1.0.2": 0,
        "10.1.0.1": 1,
        "10.1.0.3": 2,
    }


def test_failover_refines_the_priorities_of_labels():
    """Labels first, distance second."""
    setting = LocalityLbSetting(failover_priority=("tier",), failover=(LocalityFailover(from_="r1", to="r2"),))
    endpoints = _spread("r1/z1", "r2/z1", tier="gold") + _spread("r1/z2", tier="iron")
    groups = _applied(setting, endpoints, "r1/z1", labels=[("tier", "gold")])
    assert _priorities(groups) == {"r1/z1": 0, "r2/z1": 1, "r1/z2": 2}


def test_zone_aware_routing_leaves_zones_to_envoy():
    """Only regions have priorities."""
    setting = ZoneAwareLbSetting(failover=(LocalityFailover(from_="r1", to="r3"),))
    groups = _applied(setting, _spread("r1/z1", "r1/z2", "r2/z1", "r3/z1"), "r1/z1")
    assert _priorities(groups) == {"r1/z1": 0, "r1/z2": 0, "r2/z1": 2, "r3/z1": 1}


def test_zone_aware_priorities_do_not_wait_for_outlier_detection():
    """Other than those of locality settings (networking.md §3.3)."""
    balancer = LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting())
    places = [Locality("r1", "z1"), Locality("r2", "z1")]
    endpoints = [endpoint(f"10.1.0.{number}", locality=place) for number, place in enumerate(places)]
    groups = _web(endpoints, TrafficPolicy(load_balancer=balancer), key=outbound_key(locality=places[0]))
    assert [group.get("priority", 0) for group in groups] == [0, 1]
    off = LoadBalancer(zone_aware_lb_setting=ZoneAwareLbSetting(enabled=False))
    groups = _web(endpoints, TrafficPolicy(load_balancer=off), key=outbound_key(locality=places[0]))
    assert [group.get("priority", 0) for group in groups] == [0, 0]


def test_distribution_gives_weights_and_empties_the_rest():
    """A pattern's percentage is shared among its localities by weight; what none names stays without endpoints."""
    rules = (LocalityDistribute(from_="r1/*", to={"r1/z1/*": 70, "r1/*": 30}),)
    endpoints = _spread("r1/z1", "r1/z2", "r1/z3", "r2/z1")
    groups = _applied(LocalityLbSetting(distribute=rules), endpoints, "r1/z1", outlier=False)
    assert [(group.locality.label, group.weight, len(group.endpoints)) for group in groups] == [
        ("r1/z1", 70, 1),
        ("r1/z2", 15, 1),
        ("r1/z3", 15, 1),
        ("r2/z1", 1, 0),
    ]


def test_a_distribution_for_other_localities_changes_nothing():
    """The first rule whose `from` fits is used; without one, endpoints stay as they are."""
    rules = (LocalityDistribute(from_="r9", to={"*": 100}),)
    groups = _applied(LocalityLbSetting(distribute=rules), _spread("r1/z1", "r2/z1"), "r1/z1")
    assert [(group.weight, group.priority, len(group.endpoints)) for group in groups] == [(1, 0, 1), (1, 0, 1)]


LABELS = ("a", "b", "c")
settings = st.builds(
    LocalityLbSetting,
    failover_priority=st.lists(st.sampled_from(LABELS), max_size=3, unique=True).map(tuple),
    failover=st.lists(
        st.builds(LocalityFailover, from_=st.sampled_from(["r1", "r2"]), to=st.sampled_from(["r1", "r2", "r3"])),
        max_size=2,
    ).map(tuple),
)
places = st.builds(Locality, st.sampled_from(["", "r1", "r2", "r3"]), st.sampled_from(["z1", "z2"]), st.just(""))
labelled = st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["x", "y"]))
some_endpoints = st.lists(st.builds(lambda place, labels: endpoint(locality=place, labels=labels), places, labelled))


@given(settings, some_endpoints, places, labelled)
def test_priorities_have_no_gaps_and_lose_nobody(setting, endpoints, place, own):
    """Envoy refuses gaps; and whatever is preferred, each endpoint is in exactly one group, with its weight."""
    client = Standpoint(locality=place, labels=frozenset(own.items()))
    groups = apply_preference(group_by_locality(endpoints), Preference(setting), True, client)
    assert sorted({group.priority for group in groups}) == list(range(len({group.priority for group in groups})))
    assert sorted(id(each) for group in groups for each in group.endpoints) == sorted(map(id, endpoints))
    assert sum(group.weight for group in groups) == len(endpoints)


# --- what is shared --------------------------------------------------------------------------------------------------
def test_clients_all_over_the_mesh_share_an_assignment():
    """Where nothing is preferred for being near, the client's place is no input, so the memo finds the same entry."""
    web = service()
    context, reach = snapshot([web], {web: [endpoint()]}), scope([web])
    near, far = (outbound_key(locality=Locality(region), node_name=region) for region in ("r1", "r2"))
    plans = [planned_endpoints(key, reach, context) for key in (near, far)]
    assert plans[0] == plans[1]


def test_clients_in_two_regions_do_not_share_what_depends_on_their_place():
    """With outlier detection the mesh's default preference is effective, so the locality is an input."""
    web = service()
    context = snapshot([web], {web: [endpoint()]})
    reach = scope([web], [rule(TrafficPolicy(outlier_detection=OutlierDetection(interval=1.0)))])
    near, far = (outbound_key(locality=Locality(region)) for region in ("r1", "r2"))
    plans = [planned_endpoints(key, reach, context) for key in (near, far)]
    assert plans[0] != plans[1]


def test_a_router_lists_headless_services():
    """They are EDS clusters there (networking.md §1.1)."""
    bare = service("bare", resolution=Resolution.PASSTHROUGH)
    key = outbound_key(type=ProxyType.ROUTER)
    assert list(_assignments([bare], {bare: [endpoint()]}, key=key)) == ["outbound|80||bare.shop.svc.cluster.local"]
