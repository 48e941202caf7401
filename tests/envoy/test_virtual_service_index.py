"""Finding virtual services by host: the same as looking through all of them, only faster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.envoy.meshes import virtual_service
from trierarch.config.hosts import hosts_overlap
from trierarch.envoy.virtual_service_index import VirtualServiceIndex

HOSTS = st.sampled_from(["a.x", "b.x", "a.y", "*.x", "*.y", "*", "*x", "A.X"])
BARE = virtual_service("{hosts: [a], http: [{route: [{destination: {host: a}}]}]}")
SERVICES = st.lists(
    st.lists(HOSTS, min_size=1, max_size=3).map(
        lambda hosts: replace(BARE, spec=replace(BARE.spec, hosts=tuple(hosts)))
    ),
    max_size=6,
)


@given(virtual_services=SERVICES, hosts=st.lists(HOSTS.filter(str.islower), max_size=3))
def test_an_index_finds_what_a_search_finds(virtual_services, hosts):
    """All that overlap one of the hosts, each once, in order of precedence; letters' case makes no difference."""
    found = VirtualServiceIndex(virtual_services).covering(hosts)
    searched = [
        each
        for each in virtual_services
        if any(hosts_overlap(own.lower(), host) for own in each.spec.hosts for host in hosts)
    ]
    assert [id(each) for each in found] == [id(each) for each in searched]


@given(virtual_services=SERVICES)
def test_a_host_belongs_to_the_first_that_names_it(virtual_services):
    """Whoever comes later has no say."""
    owners = VirtualServiceIndex(virtual_services).owners
    for host, owner in owners.items():
        naming = [each for each in virtual_services if host in {own.lower() for own in each.spec.hosts}]
        assert owner is naming[0]
