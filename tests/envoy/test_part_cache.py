"""What the cache of parts remembers, and what it forgets."""

from __future__ import annotations

from protocol.xds.resources import build_resource
from trierarch.envoy.part_cache import INPUTS, PartCache

RESOURCES = (build_resource("a", b"1"),)


def test_other_inputs_of_which_the_same_comes_give_the_same_part():
    """So sets of successive snapshots differ only in what really differs."""
    cache = PartCache()
    part = cache.settle("listeners", ("before",), RESOURCES)
    assert cache.settle("listeners", ("after",), RESOURCES) is part
    assert cache.find(("before",)) is cache.find(("after",)) is part


def test_a_part_remembers_only_its_last_inputs():
    """It may stay the same over thousands of changes, of which each makes other inputs: these hold what they are of."""
    cache = PartCache()
    part = cache.settle("listeners", 0, RESOURCES)
    for number in range(1, INPUTS + 10):
        assert cache.settle("listeners", number, RESOURCES) is part
    assert [cache.find(number) is part for number in (9, 10, INPUTS + 9)] == [False, True, True]


def test_inputs_are_forgotten_with_their_part():
    """When nobody holds it any more."""
    cache = PartCache()
    part = cache.settle("listeners", 0, RESOURCES)
    assert cache.find(0) is part
    del part
    assert cache.find(0) is None
    assert len(cache) == 0
