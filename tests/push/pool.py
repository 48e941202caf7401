"""Random meshes and random edits, drawn from the variants of the objects in `pool.yaml`."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import strategies as st

from tests.push.fixtures import short
from trierarch.config.key_sets import KeyLocation, KeySet, NoKeys, build_key_set

_TEXT = (Path(__file__).parent / "pool.yaml").read_text()
POOL = {name: tuple(short(name, body) for body in bodies) for name, bodies in yaml.safe_load(_TEXT).items()}
"""Object name to its variants, decoded once."""

_KEYS = KeyLocation("https://login.example.com/keys")
_FOUND = (KeySet('{"keys":[{"k":"AQ","kty":"oct"}]}'), NoKeys("it is closed"))
POOL["JsonWebKeySet"] = tuple(build_key_set(_KEYS, found, "jwks") for found in _FOUND)
"""What no text says: a source of intake finds it."""


@st.composite
def edits(draw):
    """One edit: an object in some variant, or the key of one that goes."""
    variants = POOL[draw(st.sampled_from(sorted(POOL)))]
    choice = draw(st.integers(0, len(variants)))
    return variants[0].key if choice == 0 else variants[choice - 1]


@st.composite
def meshes(draw):
    """What a mesh starts with: each object of the pool in some variant, or not."""
    choices = {name: draw(st.integers(0, len(variants))) for name, variants in POOL.items()}
    return [POOL[name][choice - 1] for name, choice in choices.items() if choice]


histories = st.tuples(meshes(), st.lists(st.lists(edits(), min_size=1, max_size=3), min_size=1, max_size=8))
"""What a mesh starts with, and batches of edits to it."""


def applied(view, batch):
    """The view after a batch of edits."""
    for edit in batch:
        gone = isinstance(edit, tuple)
        view, _ = view.apply(() if gone else (edit,), (edit,) if gone else ())
    return view
