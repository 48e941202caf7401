"""Endpoints of other networks: gateways stand for them (networking.md §3.4, xds-server.md §9.4)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envoy.samples import endpoint, external, generated, outbound_key, planned_endpoints, scope, service, snapshot
from trierarch.config.destination_rule import LocalityLbSetting
from trierarch.envoy.locality import Preference, Standpoint, apply_preference, group_by_locality
from trierarch.envoy.split_horizon import ONE_NETWORK, Horizon, split_horizon
from trierarch.envoy.types import CLUSTER, ENDPOINT
from trierarch.push.model import Health, Locality
from trierarch.push.network_gateways import NetworkGateway, index_gateways
from trierarch.push.proxy import Capabilities, IPMode, SecretSource

N1 = NetworkGateway("203.0.113.1", 15443, "n1")
N2 = NetworkGateway("203.0.113.2", 15443, "n2", "c2")
N3A = NetworkGateway("203.0.113.3", 15443, "n3", "c3")
N3B = NetworkGateway("2001:db8::3", 15443, "n3", "c3")
GATEWAYS = index_gateways(frozenset({N1, N2, N3A, N3B}))


def meshed(address, network, **changes):
    """An endpoint that speaks mTLS."""
    return endpoint(address, network=network, tls_mode="istio", **changes)


def split(*endpoints, network="n1", ip_mode=IPMode.DUAL, mutual_tls=True):
    """What a client of a network sees, as ADDRESS*WEIGHT."""
    horizon = Horizon(GATEWAYS, network, ip_mode)
    groups = split_horizon(group_by_locality(endpoints), horizon, mutual_tls=mutual_tls)
    return [f"{each.addresses[0]}*{each.weight}" for group in groups for each in group.endpoints]


def test_traffic_is_shared_by_endpoints_not_by_gateways():
    """One near endpoint, two behind one gateway, three behind two: 2, 4, 3 and 3 of 12 parts (xds-server.md §9.4)."""
    endpoints = [
        meshed("10.1.0.1", "n1"),
        meshed("10.2.0.1", "n2"),
        meshed("10.2.0.2", "n2"),
        *(meshed(f"10.3.0.{number}", "n3") for number in (1, 2, 3)),
    ]
    assert split(*endpoints) == ["10.1.0.1*2", "2001:db8::3*3", "203.0.113.2*4", "203.0.113.3*3"]


def test_what_has_no_gateway_is_near():
    """A network that nobody leads into, and an endpoint in no network, are taken to be reachable."""
    assert split(endpoint("10.4.0.1", network="n4"), endpoint("10.5.0.1")) == ["10.4.0.1*2", "10.5.0.1*2"]


def test_a_client_of_no_network_is_not_everywhere():
    """It takes the gateway into any network that has one."""
    assert split(meshed("10.1.0.1", "n1"), meshed("10.4.0.1", "n4"), network="") == ["10.4.0.1*2", "203.0.113.1*2"]


def test_only_mtls_passes_a_gateway():
    """An endpoint without it is left out elsewhere, and so are all for a client without certificates."""
    assert split(endpoint("10.1.0.1", network="n1"), endpoint("10.2.0.1", network="n2")) == ["10.1.0.1*2"]
    assert split(meshed("10.2.0.1", "n2"), mutual_tls=False) == []


@pytest.mark.parametrize(("ip_mode", "expected"), [(IPMode.IPV4, ["203.0.113.3*2"]), (IPMode.IPV6, ["2001:db8::3*2"])])
def test_a_client_uses_gateways_of_its_own_family(ip_mode, expected):
    """The others get no share."""
    assert split(meshed("10.3.0.1", "n3"), ip_mode=ip_mode) == expected


def test_a_network_whose_gateways_are_out_of_reach_is_left_out():
    """There is no way to its endpoints."""
    assert split(meshed("10.2.0.1", "n2"), ip_mode=IPMode.IPV6) == []


def test_an_endpoint_without_an_address_is_behind_its_gateway():
    """It counts there, and for its own network it does not exist."""
    hidden = meshed("", "n2", addresses=(), weight=3)
    assert split(hidden, meshed("10.2.0.1", "n2")) == ["203.0.113.2*8"]
    assert split(hidden, meshed("10.2.0.1", "n2"), network="n2") == ["10.2.0.1*2"]


def test_weights_do_not_exceed_what_envoy_reads():
    """Not even multiplied."""
    assert split(endpoint("10.1.0.1", weight=2**32 - 1)) == [f"10.1.0.1*{2**32 - 1}"]


def test_gateways_keep_the_place_of_what_they_stand_for():
    """Locality and priority are those of the endpoints behind them; a locality may come out empty."""
    near, far = Locality("r1"), Locality("r2")
    endpoints = [meshed("10.1.0.1", "n1", locality=near), meshed("10.2.0.1", "n2", locality=far)]
    plain = endpoint("10.2.0.2", network="n2", locality=Locality("r3"))
    groups = split_horizon(group_by_locality([*endpoints, plain]), Horizon(GATEWAYS, "n1"), mutual_tls=True)
    groups = apply_preference(groups, Preference(LocalityLbSetting()), True, Standpoint(locality=near))
    assert [(group.locality, group.priority, group.weight) for group in groups] == [
        (near, 0, 2),
        (far, 1, 2),
        (Locality("r3"), 1, 0),
    ]


networks = st.sampled_from(["", "n1", "n2", "n3", "n4"])
some_endpoints = st.lists(
    st.builds(lambda network, weight: meshed("10.0.0.1", network, weight=weight), networks, st.integers(0, 9)),
    min_size=1,
)


@given(some_endpoints, networks)
def test_no_network_loses_or_wins_weight(endpoints, network):
    """Whoever looks, each network has its endpoints' weight, times one number that is the same for all of them."""
    (group,) = split_horizon(group_by_locality(endpoints), Horizon(GATEWAYS, network), mutual_tls=True)
    for name in ("", "n1", "n2", "n3", "n4"):
        before = sum(max(found.weight, 1) for found in endpoints if found.network == name)
        assert sum(found.weight for found in group.endpoints if found.network == name) == before * 2
    assert group.weight == sum(found.weight for found in group.endpoints)


# --- in assignments --------------------------------------------------------------------------------------------------
WEB = "outbound|80||web.shop.svc.cluster.local"
ISTIO = Capabilities(istio=True, secrets=SecretSource.AGENT)


def _web(endpoints, gateways=GATEWAYS, **key):
    web = service()
    context = replace(snapshot([web], {web: endpoints}), network_gateways=gateways)
    key = outbound_key(capabilities=ISTIO, **key)
    return generated(ENDPOINT, context, scope([web]), outbound=key)[WEB].get("endpoints", [])


def test_a_gateway_in_an_assignment():
    """It is no workload's, its health is nobody's to tell, and it is spoken to with mTLS."""
    (group,) = _web([meshed("10.2.0.1", "n2", cluster="c2", health=Health.HEALTHY)], network="n1")
    assert group["lb_endpoints"] == [
        {
            "endpoint": {"address": {"socket_address": {"address": "203.0.113.2", "port_value": 15443}}},
            "load_balancing_weight": 2,
            "metadata": {
                "filter_metadata": {
                    "envoy.transport_socket_match": {"tlsMode": "istio"},
                    "istio": {"workload": ";;;;c2"},
                }
            },
        }
    ]


def test_a_locality_that_comes_out_empty_has_no_weight():
    """Envoy refuses a weight of zero."""
    (group,) = _web([endpoint("10.2.0.1", network="n2")], network="n1")
    assert group == {"locality": {}}


def test_in_one_network_everybody_is_near():
    """Without gateways, endpoints are sent as they are, and those without an address are not."""
    endpoints = [meshed("10.2.0.1", "n2"), meshed("", "n2", addresses=())]
    (group,) = _web(endpoints, ONE_NETWORK.gateways, network="n1")
    assert [each["load_balancing_weight"] for each in group["lb_endpoints"]] == [1]


def test_a_client_may_ask_for_some_networks_only():
    """What is in another is left out; what is in none stays (xds-server.md §9.3)."""
    endpoints = [meshed("10.1.0.1", "n1"), meshed("10.2.0.1", "n2"), meshed("10.9.0.1", "")]
    (group,) = _web(endpoints, ONE_NETWORK.gateways, network_view=frozenset({"n2"}))
    addresses = [each["endpoint"]["address"]["socket_address"]["address"] for each in group["lb_endpoints"]]
    assert addresses == ["10.2.0.1", "10.9.0.1"]


def test_names_are_resolved_where_the_client_is():
    """The endpoints of DNS clusters are not split."""
    dns = external("dns.example")
    context = replace(snapshot([dns], {dns: [meshed("a.example", "n2")]}), network_gateways=GATEWAYS)
    key = outbound_key(capabilities=ISTIO, network="n1")
    (cluster,) = [c for c in generated(CLUSTER, context, scope([dns]), outbound=key).values() if "dns" in c["name"]]
    (found,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert found["endpoint"]["address"]["socket_address"]["address"] == "a.example"


def test_where_all_are_in_one_network_clients_share():
    """Their network is then no reason for an assignment of its own; with gateways it is."""
    web = service()
    context = snapshot([web], {web: [endpoint()]})
    keys = [outbound_key(network=network) for network in ("n1", "n2")]

    def plans(context):
        return [planned_endpoints(key, scope([web]), context) for key in keys]

    assert len({tuple(plan) for plan in plans(context)}) == 1
    assert len({tuple(plan) for plan in plans(replace(context, network_gateways=GATEWAYS))}) == 2
