"""The name table: which names a proxy's DNS is told, and which addresses (networking.md §7.2, xds-server.md §9.6)."""

from __future__ import annotations

import pytest

from tests.envoy import meshes, samples
from tests.envoy.samples import endpoint, external, outbound_key, service
from trierarch.envoy.types import NAME_TABLE
from trierarch.push.model import Health, Resolution
from trierarch.push.proxy import IPMode

DB = service("db", resolution=Resolution.PASSTHROUGH, headless=True)
DB_HOST = "db.shop.svc.cluster.local"


def table_of(*services, endpoints=(), features=None, **key):
    """Host name -> addresses, for a client whose key has these changes."""
    entries = entries_of(*services, endpoints=endpoints, features=features, **key)
    return {host: entry["ips"] for host, entry in entries.items()}


def entries_of(*services, endpoints=(), features=None, **key):
    """The entries of the one resource that there is."""
    context = samples.snapshot(services, dict(endpoints), settings=samples.mesh(features=features))
    found = samples.generated(NAME_TABLE, context, meshes.mesh_of(*services), outbound=outbound_key(**key))
    assert list(found) == [""]
    return found[""].get("table", {})


def pod(address, name="db-0", **changes):
    """An endpoint of a headless service that has a name of its own."""
    return endpoint(address, host_name=name, subdomain="db", **changes)


def test_a_mesh_without_names_has_an_empty_table():
    """The one resource is there all the same: whoever asks is answered."""
    assert table_of() == {}


def test_an_entry_of_kubernetes():
    """Its virtual address, and what its short names are made of."""
    web = service("web", default_address="10.2.0.1")
    assert entries_of(web) == {
        "web.shop.svc.cluster.local": {
            "ips": ["10.2.0.1"], "registry": "Kubernetes", "shortname": "web", "namespace": "shop",
        }
    }  # fmt: skip


def test_an_entry_of_a_service_entry():
    """A name outside of Kubernetes has no short form."""
    entry = external("pay.example", default_address="192.0.2.1")
    assert entries_of(entry) == {"pay.example": {"ips": ["192.0.2.1"], "registry": "External"}}


@pytest.mark.parametrize(
    ("name_of_service", "found"),
    [
        (external("range.example", default_address="198.51.100.0/24"), {}),
        (external("nowhere.example"), {}),
        (service("other", resolution=Resolution.ALIAS, external_name="else.example"), {}),
        (external("*.wild.example", default_address="192.0.2.1"), {"*.wild.example": ["192.0.2.1"]}),
    ],
)
def test_what_has_no_address_is_left_out(name_of_service, found):
    """Ranges, names that are resolved elsewhere, and aliases are no answers; a wildcard host is kept as it is."""
    assert table_of(name_of_service) == found


def test_addresses_given_by_the_control_plane_are_for_clients_that_capture_dns():
    """Of the client's own family; a client of both has both in a dual-stack mesh only."""
    entry = external("auto.example", auto_addresses=("240.240.0.1", "2001:2::1"))
    assert table_of(entry) == {}
    assert table_of(entry, dns_capture=True) == {"auto.example": ["240.240.0.1"]}
    assert table_of(entry, dns_capture=True, ip_mode=IPMode.IPV6) == {"auto.example": ["2001:2::1"]}
    both = {"dns_capture": True, "ip_mode": IPMode.DUAL}
    assert table_of(entry, **both) == {"auto.example": ["240.240.0.1"]}
    assert table_of(entry, features={"dual_stack": True}, **both) == {"auto.example": ["240.240.0.1", "2001:2::1"]}


def test_the_virtual_address_of_the_clients_own_cluster():
    """A service that several clusters define has an address in each."""
    web = service("web", default_address="10.2.0.1", addresses={"Kubernetes": ("10.2.0.1",), "east": ("10.9.0.1",)})
    assert table_of(web, cluster="east") == {"web.shop.svc.cluster.local": ["10.9.0.1"]}


def test_one_host_of_several_addresses_or_entries():
    """Addresses come together, each once."""
    first, second = (external("a.example", default_address=address) for address in ("192.0.2.1", "192.0.2.2"))
    assert table_of(first, second, first) == {"a.example": ["192.0.2.1", "192.0.2.2"]}


def test_a_kubernetes_service_before_a_service_entry():
    """Of one host, whichever comes first."""
    web = service("web", default_address="10.2.0.1")
    entry = external(web.hostname, default_address="192.0.2.1")
    assert table_of(web, entry) == table_of(entry, web) == {web.hostname: ["10.2.0.1"]}


def test_a_headless_service_leads_to_its_endpoints():
    """Each address once, whatever the ports; without endpoints there is no name."""
    endpoints = [endpoint("10.1.0.1"), endpoint("10.1.0.1", port_name="admin"), endpoint("10.1.0.2")]
    assert table_of(DB, endpoints={DB: endpoints}) == {DB_HOST: ["10.1.0.1", "10.1.0.2"]}
    assert table_of(DB) == {}


def test_pods_have_names_of_their_own():
    """Below that of their service, if they say so."""
    endpoints = [pod("10.1.0.1"), endpoint("10.1.0.2")]
    entries = entries_of(DB, endpoints={DB: endpoints})
    assert entries["db-0.db.shop.svc.cluster.local"] == {
        "ips": ["10.1.0.1"], "registry": "Kubernetes", "shortname": "db-0.db", "namespace": "shop",
    }  # fmt: skip
    assert entries.keys() == {DB_HOST, "db-0.db.shop.svc.cluster.local"}


@pytest.mark.parametrize("health", [Health.UNHEALTHY, Health.DRAINING, Health.TERMINATING, Health.UNKNOWN])
def test_what_is_not_ready_has_no_name(health):
    """Unless its service wants to be found before that; what goes is never found."""
    endpoints = {DB: [pod("10.1.0.1", health=health)]}
    assert table_of(DB, endpoints=endpoints) == {}
    early = service("db", resolution=Resolution.PASSTHROUGH, headless=True, publish_not_ready=True)
    assert (DB_HOST in table_of(early, endpoints={early: endpoints[DB]})) is (health is Health.UNHEALTHY)


def test_only_what_is_in_the_clients_network():
    """Others cannot be reached by address; what says no network may be in any."""
    endpoints = {DB: [pod("10.1.0.1", "a", network="n1"), pod("10.1.0.2", "b", network="n2"), endpoint("10.1.0.3")]}
    assert table_of(DB, endpoints=endpoints, network="n1") == {
        DB_HOST: ["10.1.0.1", "10.1.0.3"],
        "a.db.shop.svc.cluster.local": ["10.1.0.1"],
    }
    assert len(table_of(DB, endpoints=endpoints)) == 3


def test_other_clusters_count_unless_it_is_switched_off():
    """The names of their pods stay either way."""
    endpoints = {DB: [pod("10.1.0.1", "a"), pod("10.9.0.1", "b", cluster="east")]}
    assert table_of(DB, endpoints=endpoints)[DB_HOST] == ["10.1.0.1", "10.9.0.1"]
    alone = table_of(DB, endpoints=endpoints, features={"multicluster_headless": False})
    assert alone[DB_HOST] == ["10.1.0.1"]
    assert alone["b.db.shop.svc.cluster.local"] == ["10.9.0.1"]


def test_a_pod_of_the_clients_own_cluster_before_one_of_its_name_elsewhere():
    """All addresses of the nearer one, which may be two workloads."""
    here = [pod("10.1.0.1"), pod("10.1.0.2")]
    endpoints = {DB: [pod("10.9.0.1", cluster="east"), *here]}
    assert table_of(DB, endpoints=endpoints)["db-0.db.shop.svc.cluster.local"] == ["10.1.0.1", "10.1.0.2"]


def test_endpoints_of_a_service_entry_that_resolves_nothing():
    """They are what its host leads to; sockets and names are no addresses."""
    entry = external("pool.example", resolution=Resolution.PASSTHROUGH)
    endpoints = [endpoint("192.0.2.1"), endpoint("/run/socket"), endpoint("other.example")]
    assert table_of(entry, endpoints={entry: endpoints}) == {"pool.example": ["192.0.2.1"]}


def test_the_table_does_not_depend_on_the_order_of_services():
    """Equal tables have equal bytes, so nothing is sent when services merely change places."""
    one, other = (service(name, default_address=f"10.2.0.{number}") for number, name in enumerate("ab", start=1))
    context = samples.snapshot((one, other))
    tables = [samples.encoded(NAME_TABLE, context, meshes.mesh_of(*order)) for order in ((one, other), (other, one))]
    assert tables[0] == tables[1]
