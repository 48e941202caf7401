"""Directories of scopes: shared where nobody disputes a hostname, and compared once for all who share them."""

from __future__ import annotations

from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_of
from trierarch.push.directory import compare
from trierarch.push.request import ConfigKey

SERVICES = """
    Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
    Service bank/pay: {clusterIP: 10.0.0.3, ports: [{name: http, port: 80}]}
"""
ENTRY = "ServiceEntry {}/out: {{hosts: [a.example.com], ports: [{{number: 443, name: tls, protocol: TLS}}]}}"


def scopes(context):
    """Those of two namespaces."""
    return [scope_of(sidecar(namespace=namespace), context) for namespace in ("shop", "bank")]


def test_namespaces_that_see_the_same_share_a_directory():
    """One index and one tuple for both, and the namespaces of all services."""
    one, other = scopes(snapshot(SERVICES))
    assert one.memo.directory is other.memo.directory
    assert one.services is other.services
    assert one.memo.directory.namespaces == {"shop", "bank"}


def test_what_came_and_went():
    """A service that stays the object that it was is in neither."""
    view = view_of(SERVICES, ENTRY.format("shop"))
    before = built(view)
    after = built(edited(view, "Service shop/cart: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}"), before)
    old, new = (scopes(context)[0].memo.directory for context in (before, after))
    assert [service.hostname for service in compare(old, new).came] == ["cart.shop.svc.cluster.local"]
    assert compare(old, new).gone == frozenset()
    assert compare(new, old) == ((), {"cart.shop.svc.cluster.local"})


def test_who_loses_a_hostname_is_noticed():
    """A loser that comes later changes none of the services, but the scope depends on it from then on."""
    listeners = "Sidecar shop/default: {egress: [{hosts: [shop/*]}, {hosts: [bank/*]}]}"
    view = view_of(SERVICES, ENTRY.format("shop"), listeners)
    before = built(view)
    old = scope_of(sidecar(), before)
    new = scope_of(sidecar(), built(edited(view, ENTRY.format("bank")), before), old)
    assert new.services == old.services
    assert new.memo.directory.contested
    assert not old.memo.directory.contested
    assert new.depends(ConfigKey("ServiceEntry", "bank", "a.example.com"))
