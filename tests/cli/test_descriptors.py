"""How many files and sockets `trierarch serve` lets itself have."""

import resource

import pytest

from trierarch.cli import descriptors

ENDLESS = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "had", "after"),
    [
        ((1_024, 4_096), 4_096, (4_096, 4_096)),
        ((1_024, 500_000), descriptors.ENOUGH, (descriptors.ENOUGH, 500_000)),
        ((1_024, ENDLESS), descriptors.ENOUGH, (descriptors.ENOUGH, ENDLESS)),
        ((4_096, 4_096), 4_096, None),
        ((500_000, 500_000), descriptors.ENOUGH, None),
        ((ENDLESS, ENDLESS), descriptors.ENOUGH, None),
    ],
)
def test_the_limit_is_raised_as_far_as_it_may_be(monkeypatch, limits, had, after):
    """And no further than needed; what is high enough is left alone."""
    given = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: given.append(wanted))
    assert descriptors.raise_limit() == had
    assert given == ([] if after is None else [after])
