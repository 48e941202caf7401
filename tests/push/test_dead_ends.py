"""Destinations that no service has are remarked upon, and only as long as that is so."""

from __future__ import annotations

import pytest

from tests.push.fixtures import built, edited, snapshot, view_of

ROUTES = """
    Service shop/web: {clusterIP: 10.0.0.1}
    VirtualService shop/web:
      hosts: [web]
      http:
      - route: [{destination: {host: web}}, {destination: {host: gone}}]
        mirror: {host: gone}
        mirrors: [{destination: {host: gone.example}}]
      tls: [{match: [{sniHosts: [a]}], route: [{destination: {host: gone}}]}]
      tcp: [{route: [{destination: {host: gone}}]}]
    VirtualService shop/part: {http: [{route: [{destination: {host: gone.example}}]}]}
"""


def paths(context):
    """Object and place of each dead end."""
    return [(remark.key.name, remark.path) for remark in context.dead_ends.remarks]


def test_each_place_is_named():
    """Routes, mirrors, TLS and TCP, delegates too."""
    context = snapshot(ROUTES)
    assert paths(context) == [
        ("web", "spec.http[0].route[1].destination.host"),
        ("web", "spec.http[0].mirror.host"),
        ("web", "spec.http[0].mirrors[0].destination.host"),
        ("web", "spec.tls[0].route[0].destination.host"),
        ("web", "spec.tcp[0].route[0].destination.host"),
        ("part", "spec.http[0].route[0].destination.host"),
    ]
    assert set(context.dead_ends.remarks) <= set(context.findings)
    assert "gone.shop.svc.cluster.local" in context.dead_ends.remarks[0].reason


@pytest.mark.parametrize(
    ("service", "left"),
    [
        ("Service shop/gone: {clusterIP: 10.0.0.2}", 2),
        ("ServiceEntry other/x: {hosts: [gone.example]}", 4),
        ("ServiceEntry other/x: {hosts: ['*.example']}", 4),
    ],
)
def test_a_service_that_comes_settles_it(service, left):
    """Also one with a wildcard host; when it goes, the remarks are back."""
    view = view_of(ROUTES)
    before = built(view)
    with_service = edited(view, service)
    after = built(with_service, before)
    assert len(paths(after)) == left
    assert paths(built(view, after)) == paths(before)
