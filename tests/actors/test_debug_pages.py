"""What the debug pages' content is written as."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from actors import debug_pages
from actors.debug_pages import encode_page

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.integers(0, 4))
def test_a_page_reads_as_what_it_was_written_of(content, depth):
    """However deep it is taken apart."""
    assert json.loads(encode_page(content, depth)) == content


def test_a_virtual_host_of_a_dump_is_a_piece_by_itself(monkeypatch):
    """So the longest time that the encoder keeps all threads waiting does not grow with the mesh."""
    hosts = [{"name": f"web-{number}"} for number in range(3)]
    configuration = {"route_config": {"name": "80", "virtual_hosts": hosts}}
    pieces = []
    monkeypatch.setattr(debug_pages.json, "dumps", lambda piece, **_: pieces.append(piece) or "0")
    encode_page({"configs": [{"@type": "routes", "dynamic_route_configs": [configuration]}]})
    assert [each for each in hosts if each in pieces] == hosts
    assert max(len(str(each)) for each in pieces) == len("dynamic_route_configs")
