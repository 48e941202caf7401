"""Which entry wins a listener, over the whole table of classes, and what merging leaves of chains."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trierarch.config.mesh_config import Normalization
from trierarch.config.proxy_config import ProxyHeaders
from trierarch.envoy.filter_chains import ChainMatch, FilterChain, sniffed_http
from trierarch.envoy.http_connection import HttpConnection, HttpProfile
from trierarch.envoy.listener_conflicts import VERDICTS, ListenerClass, ListenerEntry, merge_chains, settle
from trierarch.envoy.tcp_proxy import TcpProxy
from trierarch.push.model import PortProtocol

HTTP, TCP, AUTO = ListenerClass.HTTP, ListenerClass.TCP, ListenerClass.AUTO
PROFILE = HttpProfile(
    inbound=False, istio=False, metadata_exchange=False, headers=ProxyHeaders(), normalization=Normalization.BASE
)
SNIFFED = sniffed_http(http10=False)


def tcp_chain(owner: str, **match) -> FilterChain:
    """A TCP chain to somebody's cluster."""
    return FilterChain(
        match=ChainMatch(**match) if match else None, filters=TcpProxy(stat_prefix=owner, clusters=owner), outbound=True
    )


def http_chain(owner: str, match: ChainMatch | None = None) -> FilterChain:
    """An HTTP chain that asks for somebody's routes."""
    return FilterChain(match=match, filters=HttpConnection(profile=PROFILE, stat_prefix="", routes=owner))


def entry(kind: ListenerClass, owner: str) -> ListenerEntry:
    """An entry of a class, with the chains that entries of it have off the wildcard."""
    chains = {
        HTTP: (http_chain(owner),),
        TCP: (tcp_chain(owner),),
        AUTO: (tcp_chain(owner), http_chain(owner, SNIFFED)),
    }[kind]
    protocol = {HTTP: PortProtocol.HTTP, TCP: PortProtocol.TCP, AUTO: PortProtocol.UNSUPPORTED}[kind]
    return ListenerEntry(binds=("192.0.2.5",), port=80, protocol=protocol, recorded=kind, chains=chains, real=False)


def owners(result: ListenerEntry) -> list[str]:
    """`http:OWNER` and `tcp:OWNER` of each chain, in order."""
    return [
        f"http:{chain.filters.routes}" if isinstance(chain.filters, HttpConnection) else f"tcp:{chain.filters.clusters}"
        for chain in result.chains
    ]


OUTCOMES = {
    (HTTP, HTTP): (HTTP, ["http:old"]),
    (HTTP, TCP): (AUTO, ["http:old", "tcp:new"]),
    (HTTP, AUTO): (AUTO, ["tcp:new", "http:new"]),
    (TCP, HTTP): (AUTO, ["tcp:old", "http:new"]),
    (TCP, TCP): (TCP, ["tcp:old"]),
    (TCP, AUTO): (AUTO, ["tcp:old", "http:new"]),
    (AUTO, HTTP): (AUTO, ["tcp:old", "http:old"]),
    (AUTO, TCP): (AUTO, ["tcp:old", "http:old"]),
    (AUTO, AUTO): (AUTO, ["tcp:old", "http:old"]),
}


@pytest.mark.parametrize(("pair", "outcome"), OUTCOMES.items(), ids=lambda value: str(value))
def test_every_pair_of_classes_has_its_outcome(pair, outcome):
    """For each recorded class and each newcomer: the class afterwards, and whose chains there are, in order."""
    old, new = pair
    result = settle(entry(old, "old"), entry(new, "new"))
    assert (result.recorded, owners(result)) == outcome


def test_the_table_knows_every_pair():
    """No pair of classes is without a verdict."""
    assert set(VERDICTS) == set(product(ListenerClass, ListenerClass)) == set(OUTCOMES)


@pytest.mark.parametrize(("old", "new"), [(HTTP, TCP), (TCP, HTTP)])
def test_http_that_shares_a_listener_takes_only_what_is_http(old, new):
    """A chain that took everything gets the match of the HTTP inspector once another chain takes the rest."""
    result = settle(entry(old, "old"), entry(new, "new"))
    matches = [chain.match for chain in result.chains if isinstance(chain.filters, HttpConnection)]
    assert matches == [SNIFFED]


@pytest.mark.parametrize("kind", ListenerClass)
def test_a_locked_entry_stays_as_it_is(kind):
    """A Sidecar's own port takes no service of the catch-all, of whatever class."""
    locked = replace(entry(TCP, "old"), locked=True)
    assert settle(locked, entry(kind, "new")) is locked


@pytest.mark.parametrize("protocol", [PortProtocol.MONGO, PortProtocol.MYSQL])
def test_protocols_in_which_the_server_speaks_first_share_with_no_other(protocol):
    """Nothing could tell their connections from others': the newcomer is dropped, whichever of the two it is."""
    first = replace(entry(TCP, "old"), protocol=protocol)
    other = replace(entry(TCP, "new"), chains=(tcp_chain("new", server_names=("a",)),))
    assert settle(first, other) is first
    assert settle(other, first) is other


MATCHES = st.builds(
    ChainMatch,
    prefix_ranges=st.lists(st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/8", "10.1.2.3"]), max_size=2).map(
        tuple
    ),
    server_names=st.lists(st.sampled_from(["*", "a.example", "b.example"]), max_size=2).map(tuple),
)
CHAINS = st.lists(
    st.builds(FilterChain, match=MATCHES, filters=st.builds(TcpProxy, stat_prefix=st.just(""), clusters=st.text())),
    max_size=5,
).map(tuple)


def connections(chain: FilterChain) -> list[tuple[str, str]]:
    """Pairs of an address and a server name that Envoy would find the chain by."""
    match = chain.match or ChainMatch()
    ranges = {str(ip_network(each, strict=False)) if each[0] != "0" else "" for each in match.prefix_ranges or ("0",)}
    return [(one, name.strip("*")) for one in sorted(ranges) for name in match.server_names or ("",)]


@given(existing=CHAINS, incoming=CHAINS)
def test_merging_keeps_the_old_and_nothing_overlaps(existing, incoming):
    """The old chains stay in front and unchanged, and no two others are found by the same address and name."""
    existing = merge_chains((), existing)
    merged = merge_chains(existing, incoming)
    assert merged[: len(existing)] == existing
    found = [each for chain in merged for each in connections(chain)]
    assert len(found) == len(set(found))
    assert merge_chains(merged, incoming) == merged


@given(chains=CHAINS)
def test_chains_that_overlap_nothing_stay_as_they_are(chains):
    """Not even their match is written anew."""
    apart = merge_chains((), chains)
    assert all(one is other for one, other in zip(merge_chains((), apart), apart, strict=True))


def test_the_first_chain_has_what_several_name():
    """Names are taken out of the later chain; where all names are taken at some ranges, the ranges."""
    first = tcp_chain("a", server_names=("a", "b"), prefix_ranges=("10.0.0.0/8",))
    later = tcp_chain("b", server_names=("B", "c"), prefix_ranges=("10.1.0.0/8", "11.0.0.0/8"))
    ranges = tcp_chain("c", server_names=("a",), prefix_ranges=("10.0.0.0/8", "12.0.0.0/8"))
    assert [chain.match for chain in merge_chains((), (first, later, ranges))] == [
        first.match,
        ChainMatch(server_names=("c",), prefix_ranges=("10.1.0.0/8", "11.0.0.0/8")),
        ChainMatch(server_names=("a",), prefix_ranges=("12.0.0.0/8",)),
    ]


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ({"prefix_ranges": ("10.1.2.3/8",)}, {"prefix_ranges": ("10.9.9.9/8",)}, True),
        ({"prefix_ranges": ("10.0.0.0/8",)}, {"prefix_ranges": ("10.0.0.0/16",)}, False),
        ({"prefix_ranges": ("0.0.0.0/0",)}, {}, True),
        ({"server_names": ("a", "b")}, {"server_names": ("b", "a")}, True),
        ({"server_names": ("*",)}, {}, True),
        ({"server_names": ("a",)}, {"server_names": ("a", "b")}, False),
        ({"application_protocols": ("h2c", "http/1.1")}, {"application_protocols": ("http/1.1", "h2c")}, False),
    ],
)
def test_matches_that_take_the_same_connections_conflict(one, other, conflict):
    """Host bits, `*`, 0.0.0.0 and the order of names make no difference; the order of protocols does."""
    merged = merge_chains((tcp_chain("old", **one),), (tcp_chain("new", **other),))
    assert (len(merged) == 1) is conflict
