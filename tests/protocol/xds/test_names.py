"""The pool of names: shares them, and cannot be made to grow for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import decode, encode
from protocol.proto.trierarch.xds import DeltaFields, SotwFields
from protocol.wire_reading import DecodeError
from protocol.xds.names import NamePool, begin_of_names, dense_size


def test_equal_names_become_one_object() -> None:
    """Whoever names a thing second gets the first one's name, and holds no copy."""
    pool, first = NamePool(), "".join(["cluster", "-", "1"])
    (shared,) = pool.share([first])
    (again,) = pool.share(["".join(["cluster", "-1"])])
    assert again is shared is first


@given(st.lists(st.lists(st.text())), st.integers(0, 30))
def test_names_stay_what_they_are(requests: list[list[str]], pooled: int) -> None:
    """However small the pool: what comes out is equal to what went in, in its order."""
    pool = NamePool(pooled)
    assert [list(pool.share(names)) for names in requests] == requests


def test_a_client_with_ever_new_names_fills_nothing() -> None:
    """A hundred thousand different names leave no more than the pool may hold."""
    pool = NamePool(pooled=10_000)
    for number in range(1000):
        pool.share([f"{number:04}-{each:05}" for each in range(100)])
        assert len(pool) <= 1000


def test_known_names_do_not_count_again() -> None:
    """A mesh whose clients repeat the same names forever keeps one pool."""
    pool, names = NamePool(pooled=1000), [f"name-{each}" for each in range(50)]
    kept = pool.share(names)
    for _ in range(100):
        assert all(ours is theirs for ours, theirs in zip(pool.share(list(names)), kept, strict=True))


NAMES = [
    "a",
    "cluster",
    "twenty-six characters long",
    "with \x1a\x01a in it",
    "\x1a",
    "é" * 40,
    "x" * 127,
    "x" * 128,
    "y" * 200,
]
"""Among them those that cannot be told apart at sight: the tag of a name is 0x1a, as are 26 and this character."""


@given(st.lists(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES)), st.binary(max_size=20))
def test_names_that_are_known_are_cut_out_of_a_request(met: list[str], named: list[str], node: bytes) -> None:
    """What is cut and what the decoder makes of the rest are together what it makes of the whole, in its order."""
    pool = NamePool()
    pool.share(met)
    data = encode(DeltaFields(node=[node, bytes(1024)], resource_names_subscribe=named, response_nonce="7"))
    rest, known = pool.cut(data)
    left = decode(DeltaFields, rest)
    assert [*known, *left.resource_names_subscribe] == named
    assert (left.node, left.response_nonce) == ([node, bytes(1024)], "7")


@given(st.lists(st.sampled_from(NAMES), min_size=1), st.data())
def test_what_is_no_message_is_none_without_its_known_names(named: list[str], drawn: st.DataObject) -> None:
    """Cut off anywhere, or followed by anything: the decoder refuses the rest if and only if it refuses the whole."""
    pool = NamePool()
    pool.share(NAMES)
    whole = encode(DeltaFields(type_url="t" * 1024, resource_names_subscribe=named)) + drawn.draw(st.binary(max_size=9))
    data = whole[: drawn.draw(st.integers(1027, len(whole)))]
    rest, known = pool.cut(data)
    assert outcome(rest, known) == outcome(data, ())


def outcome(data: bytes, known: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names in a request of which some were cut out; None if it cannot be read."""
    try:
        return (*known, *decode(DeltaFields, data).resource_names_subscribe)
    except DecodeError:
        return None


def test_a_request_of_which_all_is_known_leaves_nothing_to_decode() -> None:
    """That is every first request but the first."""
    pool = NamePool()
    names = pool.share([f"outbound|80||service-{number}.shop.svc.cluster.local" for number in range(100)])
    data = encode(DeltaFields(type_url="t", resource_names_subscribe=list(names)))
    rest, known = pool.cut(data)
    assert rest == encode(DeltaFields(type_url="t"))
    assert all(ours is theirs for ours, theirs in zip(known, names, strict=True))


@pytest.mark.parametrize("before", [b"\x38\x00" * 1000, b"\x3b" + b"\x08\x00" * 1000 + b"\x3c"])
def test_names_are_not_looked_for_behind_what_belongs_elsewhere(before: bytes) -> None:
    """A request may begin with millions of fields that nobody knows, or with a group of them: the decoder takes them
    aside, and whoever only cuts takes no time.
    """
    data = before + encode(DeltaFields(resource_names_subscribe=["a"]))
    assert begin_of_names(data) == len(data)


@pytest.mark.parametrize(
    ("data", "dense"),
    [
        (b"", 0),
        (encode(DeltaFields(node=[bytes(40_000)], type_url="t" * 100)), 0),
        (encode(SotwFields(version_info="7" * 100, node=[bytes(40_000)])), 0),
        (encode(DeltaFields(node=[bytes(40_000)], resource_names_unsubscribe=["name"])), len("name") + 2),
        (encode(SotwFields(node=[bytes(100)])) * 9, 102),
        (b"\x78\x00" * 100, 200),
        (b"\x0b" + b"\x78\x00" * 100 + b"\x0c", 202),
        (b"\x0b" * 100, 100),
        (b"\xff" * 100, 100),
    ],
)
def test_what_may_be_many_fields_is_all_but_what_a_request_begins_with(data: bytes, dense: int) -> None:
    """Nodes and texts cost what they are, one each, but of eight at most; all else may be cut as small as can be."""
    assert dense_size(data) == dense
