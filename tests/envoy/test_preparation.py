"""The codec is ready before the first resource is generated."""

from __future__ import annotations

from importlib import import_module

from tests.push.fixtures import built, scope_of, sidecar, view_in
from tests.push.pool import POOL, applied
from trierarch.config.store import ConfigView
from trierarch.envoy.generate import PARTS, generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.preparation import prepare_codec
from trierarch.push.steps import run_steps


def test_nothing_is_compiled_once_the_codec_is_prepared(monkeypatch):
    """All types of an Istio sidecar in a mesh of every object of the pool are encoded by what was prepared."""
    codec = import_module("protocol.codec.encode")
    encoders = codec._Encoders()
    monkeypatch.setattr(codec, "_ENCODERS", encoders)
    run_steps(prepare_codec())
    prepared = set(encoders)
    context = built(applied(ConfigView(), [variants[-1] for variants in POOL.values()]))
    proxy = sidecar("web-1", "a", "10.1.0.1", ISTIO_VERSION="1.32.0")
    view, scope, memo, parts = view_in(proxy, context), scope_of(proxy, context), Memo(10_000), PartCache()
    sets = [run_steps(generate(view, scope, context, url, memo, parts)) for url in PARTS]
    assert all(map(len, sets[:3]))
    assert set(encoders) == prepared
