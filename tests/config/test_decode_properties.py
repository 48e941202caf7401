"""Properties of decoding and checking: no document raises anything, whatever users write."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.config.reading import ORIGIN
from tests.config.specimens import SPECIMENS
from trierarch.config.admission import Admitted, Refused, admit
from trierarch.config.decode import Decoded, decode_mesh_config, decode_mesh_networks
from trierarch.config.findings import Rejected
from trierarch.config.kinds import KINDS
from trierarch.config.scalars import parse_duration

NAMES = (
    "spec status metadata hosts http route match headers name port number destination trafficPolicy tls tcp "
    "egress ingress endpoints ports labels addresses host uri regex exact fault delay timeout weight subsets ttl"
)
WORDS = st.sampled_from(NAMES.split())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | WORDS
    | st.sampled_from(["5s", "*.a.b", "*", ".", "a/b", "unix://", "(", "127.0.0.1:1", "[::1]:x", "NONE", "%"])
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)
KIND_NAMES = st.sampled_from(sorted(name for name, kind in KINDS.items() if kind.versions))


@given(KIND_NAMES, st.dictionaries(WORDS | st.text(max_size=5), TREES, max_size=6), TREES, TREES)
def test_nothing_that_users_write_raises(kind: str, body: dict[str, object], spec: object, status: object):
    """Any tree is admitted, refused or of an unknown kind, and equal trees say the same."""
    metadata = body.get("metadata", {"name": "it"})
    whole = body | {"apiVersion": KINDS[kind].api_versions[0], "kind": kind, "metadata": metadata}
    whole |= {"spec": spec, "status": status}
    first, second = admit(whole, ORIGIN, "k"), admit(whole, ORIGIN, "k")
    assert isinstance(first, Admitted | Refused)
    if isinstance(first, Admitted) and isinstance(second, Admitted):
        assert first.object.digest == second.object.digest


def places(tree: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of everything inside a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(inner for step, value in items for inner in places(value, (*path, step)))]


def changed(tree: Any, path: tuple[str | int, ...], value: object) -> Any:  # noqa: ANN401 - any JSON
    """The tree with another value at that place."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = changed(tree[path[0]], path[1:], value)
    return copy


def test_specimens_are_right():
    """Each specimen is admitted without any remark."""
    for specimen in SPECIMENS:
        answer = admit(specimen, ORIGIN, "k")
        assert isinstance(answer, Admitted), answer
        assert answer.findings == ()


@given(st.data())
def test_one_wrong_value_does_not_raise(data: st.DataObject):
    """Whatever stands in one place of a good object, the answer is a verdict; a refusal names a place in the object."""
    specimen = data.draw(st.sampled_from(SPECIMENS))
    path = data.draw(st.sampled_from(places(specimen)[1:]))
    answer = admit(changed(specimen, path, data.draw(TREES)), ORIGIN, "k")
    if isinstance(answer, Refused):
        roots = ("spec", "metadata", "apiVersion", "kind")
        assert all(each.path.startswith(roots) and each.reason for each in answer.findings)


@given(st.dictionaries(WORDS | st.text(max_size=5), TREES, max_size=6))
def test_mesh_files_do_not_raise_either(body: dict[str, object]):
    """Nor does any tree as a mesh configuration or as networks."""
    assert isinstance(decode_mesh_config(body, ORIGIN, "k"), Decoded | Rejected)
    assert isinstance(decode_mesh_networks({"networks": body}, ORIGIN, "k"), Decoded | Rejected)


@given(st.text())
def test_whatever_a_duration_reads_is_a_number(text: str):
    """No text makes the reader of durations fail."""
    seconds = parse_duration(text)
    assert seconds is None or isinstance(seconds, float | int)
