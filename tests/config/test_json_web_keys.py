"""Which keys can be used, and what is made of sets that have others too."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.keys import LOOSE, RSA, SECRET, UNUSABLE, USABLE
from tests.config.reading import CASES
from trierarch.config.json_web_keys import as_written, is_usable, read_keys, usable_keys, write_keys

RESOLVER = CASES / "conformance" / "go-tables" / "model" / "pilot__pkg__model__jwks_resolver.json"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=3
)
key_like = st.dictionaries(st.sampled_from(["kty", "kid", "alg", "crv", "n", "e", "x", "y", "k", "x5c"]), json_values)
whole_keys = st.sampled_from([*USABLE.values(), *UNUSABLE.values()])


@pytest.mark.parametrize("key", USABLE.values(), ids=USABLE)
def test_keys_that_can_be_used(key):
    """Of every type, with their algorithm or without."""
    assert is_usable(key)


@pytest.mark.parametrize("key", UNUSABLE.values(), ids=UNUSABLE)
def test_keys_that_cannot_be_used(key):
    """A set of nothing else is refused with words; beside a good one they are left out."""
    assert not is_usable(key)
    with pytest.raises(ValueError, match="none of its keys can be used"):
        usable_keys(json.dumps({"keys": [key]}))
    assert usable_keys(json.dumps({"keys": [key, SECRET]})) == write_keys([SECRET])


@given(st.lists(whole_keys | key_like), st.randoms(use_true_random=False))
def test_the_order_of_keys_means_nothing(some, random):
    """A set says the same in whatever order its keys and their members are, and is a set again."""
    other = [dict(random.sample(list(key.items()), len(key))) for key in some]
    random.shuffle(other)
    assert write_keys(some) == write_keys(other) == write_keys(read_keys_or_none(write_keys(some)) or some)


def read_keys_or_none(text):
    """The keys of a set, None if it is none."""
    try:
        return read_keys(text)
    except ValueError:
        return None


@given(st.lists(whole_keys | key_like))
def test_whatever_the_keys_are(some):
    """Either keys that can be used come of it, and then in JSON that is strict, or there are words."""
    try:
        usable = usable_keys(json.dumps({"keys": some}))
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either is right
        return
    assert all(map(is_usable, read_keys(usable)))
    assert usable.encode()
    assert as_written(usable) == usable


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'{"keys": {}}', b'{"keys": [1]}', b'{"keys": [{"kid": "a"}]}', b"[" * 100_000],
)
def test_what_is_no_key_set(body):
    """Whatever else an address answers is refused with words, and raises nothing unexpected."""
    with pytest.raises(ValueError, match=r"^(it|one of its keys) (is|has) "):
        read_keys(body)


def test_what_somebody_wrote_stays_as_it_is():
    """With its spaces, its order, and keys that cannot be used beside one that can."""
    text = f' {{"keys": [{json.dumps(SECRET)}, {{"kty":"foo", "x5c": ["a"]}}]}} '
    assert as_written(text) == text


@pytest.mark.parametrize("text", LOOSE.values(), ids=LOOSE)
def test_what_is_not_strict_is_written_anew(text):
    """Envoy would refuse it, and it has a good key."""
    assert as_written(text) == write_keys([SECRET])


def test_more_than_keys_is_left_out():
    """Members of a set beside its keys, and members of a key that are no text."""
    text = json.dumps({"keys": [{**RSA, "x": 1, "x5c": ["a"]}], "more": {}})
    assert usable_keys(text) == write_keys([RSA]) == as_written(text)


@pytest.mark.skipif(not RESOLVER.is_file(), reason=f"no tables at {RESOLVER}: set TRIERARCH_CASES to where they are")
def test_tables_of_istiods_resolver():
    """Bodies that istiod refuses are refused; where it sees no difference between two key sets, there is none."""
    tables = {
        each["func"]: each["rows"] for each in json.loads(RESOLVER.read_text())["tables"] if "." not in each["table"]
    }
    for row in (each["row"] for each in tables["TestValidateJWKSFormat"] if each["complete"]):
        assert (read_keys_or_none(row["body"]) is None) == row["wantErr"], row["name"]
    for row in (each["row"] for each in tables["TestCompareJWKSResponse"] if each["complete"]):
        old, new = (read_keys_or_none(row["args"][each]) for each in ("oldKeyString", "newKeyString"))
        if old and new:  # an answer that is no key set replaces nothing
            assert (write_keys(old) != write_keys(new)) == row["want"], row["name"]
