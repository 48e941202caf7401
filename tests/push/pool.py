"""Random meshes and random edits, drawn from the variants of the objects in `pool.yaml`."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import strategies as st

from tests.push.fixtures import short

_TEXT = (Path(__file__).parent / "pool.yaml").read_text()
POOL = {name: tuple(short(name, body) for body in bodies) for name, bodies in yaml.safe_load(_TEXT).items()}
"""Object name to its variants, decoded once."""


@st.composite
def edits(draw):
    """One edit: an object in some variant, or the key of one that goes."""
    variants = POOL[draw(st.sampled_from(sorted(POOL)))]
    choice = draw(st.integers(-1, len(variants) - 1))
    return variants[0].key if choice < 0 else variants[choice]


histories = st.tuples(st.lists(edits(), max_size=25), st.lists(st.lists(edits(), min_size=1, max_size=3), max_size=6))
"""What a mesh starts with, and batches of edits to it."""


def applied(view, batch):
    """The view after a batch of edits."""
    for edit in batch:
        gone = isinstance(edit, tuple)
        view, _ = view.apply(() if gone else (edit,), (edit,) if gone else ())
    return view
