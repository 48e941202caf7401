"""A snapshot built on the one before says the same as one built from nothing, and keeps what it can."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given, settings

from tests.push.fixtures import built
from tests.push.pool import applied, histories
from tests.push.structure import structure
from trierarch.config.objects import ObjectKey
from trierarch.config.store import ConfigView
from trierarch.push.changes import MESH_KEY
from trierarch.push.context import PushContext
from trierarch.push.endpoints import NO_ENDPOINTS
from trierarch.push.request import ConfigKey
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import ScopeKey

SIDECAR = ObjectKey("Kubernetes", "Sidecar", "a", "default")
SCOPES = (ScopeKey("a", None), ScopeKey("b", None), ScopeKey("a", SIDECAR), ScopeKey("istio-system", None))


def snapshots(history):
    """The snapshots of a history, each built on the one before."""
    start, batches = history
    view = applied(ConfigView(), start)
    context = built(view)
    yield context
    for batch in batches:
        view = applied(view, batch)
        context = built(view, context)
        yield context


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_incremental_equals_cold(history):
    """Every section of a snapshot built after others says what the section of a cold build says."""
    for context in snapshots(history):
        cold = built(context.view)
        for each in fields(PushContext):
            if each.name not in ("number", "changed", "view"):
                name = each.name
                assert structure(getattr(context, name)) == structure(getattr(cold, name)), name


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_scopes_built_on_others_equal_cold_ones(history):
    """A scope built on that of the snapshot before says what a scope built from nothing says."""
    scopes = {}
    for context in snapshots(history):
        for key in SCOPES:
            scopes[key] = run_steps(build_scope(key, context, scopes.get(key)))
            assert structure(scopes[key]) == structure(run_steps(build_scope(key, context)))


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_the_same_view_again_changes_nothing(history):
    """A snapshot of a view that was built already has every section of the one before, and no changes."""
    for context in snapshots(history):
        again = built(context.view, context)
        assert again.changed == frozenset()
        for each in fields(PushContext):
            if each.name not in ("number", "settings", "changed", "findings"):
                assert getattr(again, each.name) is getattr(context, each.name), each.name


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_what_differs_is_among_the_changes(history):
    """A service, endpoint set, root or rule that is another object than before has its key in `changed`."""
    before = PushContext()
    for context in snapshots(history):
        assert (before.mesh is not context.mesh) == (MESH_KEY in context.changed)
        for service in set(before.services.ordered) ^ set(context.services.ordered):
            assert ConfigKey("ServiceEntry", service.namespace, service.hostname) in context.changed
        for name in before.endpoints.by_service.keys() | context.endpoints.by_service.keys():
            same = before.endpoints.of(name) is context.endpoints.of(name)
            assert same == (ConfigKey("Endpoints", name.namespace, name.host) not in context.changed)
        for root in set(before.virtual_services.roots) ^ set(context.virtual_services.roots):
            assert ConfigKey("VirtualService", root.namespace, root.name) in context.changed
        before = context


@given(histories)
@settings(max_examples=settings.default.max_examples // 5)
def test_objects_that_say_the_same_are_the_same(history):
    """A service and a set of endpoints are new objects only if they say something new."""
    before = PushContext()
    for context in snapshots(history):
        for name, service in context.services.by_id.items():
            old = before.services.by_id.get(name)
            if old is not None and before.mesh is context.mesh:
                assert (old is service) == (structure(old) == structure(service))
        for name, endpoints in context.endpoints.by_service.items():
            old = before.endpoints.by_service.get(name, NO_ENDPOINTS)
            assert (old is endpoints) == (structure(old) == structure(endpoints))
        before = context
