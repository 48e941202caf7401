"""SPIFFE identities: five parts, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spiffe import SpiffeId, parse_spiffe

part = st.text(st.characters(exclude_characters="/@", exclude_categories=["Cs"]), min_size=1)


@given(st.builds(SpiffeId, part, part, part))
def test_what_is_written_is_read(identity):
    """Parsing undoes writing, whatever the names are, as long as none has a slash."""
    assert parse_spiffe(str(identity)) == identity


def test_an_account_of_a_cloud_is_a_trust_domain():
    """Its `@` becomes a dot, for a URI would take what stands before it for a user."""
    assert str(SpiffeId("me@cloud.com", "a", "b")) == "spiffe://me.cloud.com/ns/a/sa/b"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "spiffe://",
        "spiffe://td/ns/a/sa",
        "spiffe://td/ns/a/sa/b/c",
        "spiffe://td/ns//sa/b",
        "spiffe:///ns/a/sa/b",
        "spiffe://td/sa/b/ns/a",
        "https://td/ns/a/sa/b",
        "td/ns/a/sa/b",
        "SPIFFE://td/ns/a/sa/b",
    ],
)
def test_anything_else_is_no_identity(uri):
    """Too few parts, too many, an empty one, others' names, another scheme."""
    assert parse_spiffe(uri) is None
