"""Host names: short names, wildcards and which is the most specific."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.reading import CASES
from trierarch.config.hosts import (
    host_covers,
    hosts_overlap,
    most_specific_cover,
    most_specific_first,
    resolve_gateway_name,
    resolve_short_name,
    specificity,
)

TABLES = CASES / "conformance" / "validation" / "tables"
HOSTS = st.from_regex(r"(\*|\*\.)?([ab]\.){0,2}[ab]", fullmatch=True) | st.just("*")


@pytest.mark.parametrize(
    ("host", "full"),
    [
        ("reviews", "reviews.shop.svc.cluster.local"),
        ("reviews.bank", "reviews.bank"),
        ("*", "*"),
        ("*.com", "*.com"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_short_names(host: str, full: str):
    """Only a name without dots is short (networking.md §0.4)."""
    assert resolve_short_name(host, "shop") == full


@pytest.mark.parametrize(
    ("gateway", "full"),
    [
        ("edge", "shop/edge"),
        ("infra/edge", "infra/edge"),
        ("edge.infra.svc.cluster.local", "infra/edge"),
        ("mesh", "mesh"),
    ],
)
def test_gateway_names(gateway: str, full: str):
    """The old spelling has the namespace behind a dot."""
    assert resolve_gateway_name(gateway, "shop") == full


def test_the_most_specific_comes_first():
    """Exact names before wildcards, the longer before the shorter."""
    hosts = ["*", "*.com", "b.com", "*.b.com", "aa.b.com"]
    assert most_specific_first(hosts) == ["aa.b.com", "b.com", "*.b.com", "*.com", "*"]


@given(HOSTS, st.frozensets(HOSTS, max_size=6))
def test_most_specific_cover_is_the_first_that_covers(host: str, candidates: frozenset[str]):
    """Looking up suffixes finds what sorting and trying each finds."""
    covering = [each for each in sorted(candidates, key=specificity) if host_covers(each, host)]
    assert most_specific_cover(host, candidates) == (covering[0] if covering else None)


@given(HOSTS, HOSTS, HOSTS)
def test_covering_and_overlapping(one: str, other: str, third: str):
    """Overlapping is symmetric; what covers overlaps; covering is transitive."""
    assert hosts_overlap(one, other) == hosts_overlap(other, one)
    if host_covers(one, other):
        assert hosts_overlap(one, other)
        if host_covers(other, third):
            assert host_covers(one, third)


@pytest.mark.skipif(not TABLES.is_dir(), reason=f"no tables at {TABLES}: set TRIERARCH_CASES to where they are")
def test_known_answers():
    """Istiod's own tables of matching and of subsets."""
    tables = {
        table["func"]: table["rows"]
        for table in json.loads((TABLES / "pkg__config__host__name.json").read_text())["tables"]
    }
    for row in (each["row"] for each in tables["TestNameMatches"]):
        assert hosts_overlap(row["a"], row["b"]) == row["out"], row
    for row in (each["row"] for each in tables["TestNameSubsetOf"]):
        assert host_covers(row["b"], row["a"]) == row["out"], row
