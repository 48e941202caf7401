"""The same configuration gives the same bytes in the same order, in whichever process, whatever came first.

Several control planes serve one mesh, and proxies change between them: what one of them sent must be what another one
has. Run as a module it prints digests of what is generated for meshes of the pool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.push.fixtures import built
from tests.push.pool import POOL, meshes
from tests.push.test_affects_generation import PROXIES
from trierarch.config.store import ConfigView
from trierarch.envoy.generate import VHDS_PARTS, generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import TYPE_RULES
from trierarch.push.sidecar_scope import build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import select_view

MESHES = max(len(variants) for variants in POOL.values())
ROOT = Path(__file__).parents[2]


def digests(objects):
    """Proxy and type to a digest of all resources: names, bodies and their order."""
    view, _ = ConfigView().apply(objects)
    context, memo, parts = built(view), Memo(100_000), PartCache()
    found = {}
    for index, proxy in enumerate(PROXIES):
        mine = select_view(proxy, context)
        scope = run_steps(build_scope(mine.outbound.scope, context))
        for url in VHDS_PARTS:
            resources = run_steps(generate(mine, scope, context, url, memo, parts))
            found[f"{index} {TYPE_RULES[url].short}"] = _digest(resources)
    return found


def _digest(resources):
    digest = blake2b(digest_size=8)
    for each in resources:
        digest.update(each.name.encode())
        digest.update(bytes(each.body))
    return f"{len(resources)} {digest.hexdigest()}"


def in_process(seed):
    """The digests of some meshes, from a process of its own, whose hashes of strings begin with this seed."""
    command = [sys.executable, "-m", "tests.envoy.test_determinism"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_other_processes_generate_the_same():
    """The order of a set shows in no resource."""
    first, second = in_process("1"), in_process("2")
    assert len(first) == MESHES
    assert all(len(found) == len(PROXIES) * len(VHDS_PARTS) for found in first)
    assert first == second


@given(meshes(), st.randoms(use_true_random=False))
@settings(max_examples=settings.default.max_examples // 10)
def test_the_order_of_objects_does_not_matter(objects, random):
    """Nor does it show in which order files were read, or objects were applied."""
    shuffled = random.sample(objects, len(objects))
    assert digests(shuffled) == digests(objects)


def print_digests():
    """Meshes of all objects of the pool, each in another variant."""
    chosen = ([variants[number % len(variants)] for variants in POOL.values()] for number in range(MESHES))
    print(json.dumps([digests(objects) for objects in chosen]))


if __name__ == "__main__":
    print_digests()
