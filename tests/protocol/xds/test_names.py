"""The pool of names: shares them, and cannot be made to grow for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.xds.names import NamePool


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
