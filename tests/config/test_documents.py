"""Files to documents: where they are split, how YAML and JSON are read, and what is reported where."""

from __future__ import annotations

from math import inf

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from trierarch.config.documents import ParsedDocument, parse_document, split_documents
from trierarch.config.findings import Rejected
from trierarch.config.objects import Origin
from trierarch.config.yaml_values import MAX_DEPTH, load_yaml, plain_value

ORIGIN = Origin(source="test", path="a.yaml")


def read(data: bytes, path: str = "a.yaml") -> list[object]:
    """Of each document its values, or the line and reason of what is wrong with it."""
    answers: list[object] = []
    for chunk in split_documents(data, path):
        parsed = parse_document(chunk, ORIGIN)
        if isinstance(parsed, Rejected):
            answers.append((parsed.origin.line, parsed.reason))
        else:
            answers.extend(each.value for each in parsed)
    return answers


def lines(data: bytes) -> list[int]:
    """The line of each document's first content."""
    return [chunk.line for chunk in split_documents(data, "a.yaml")]


def test_documents_are_split_at_markers():
    """Empty ones and those of comments are none; a marker may have content behind it; dots end a document too."""
    data = b"# head\n\n---\n# nothing\n---\na: 1\n--- {b: 2}\n---\n...\nc: 3\n...\n# end\n"
    assert read(data) == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert lines(data) == [6, 7, 10]


def test_only_markers_at_the_start_of_a_line_count():
    """Inside a block scalar they are indented; a longer run of hyphens is no marker."""
    assert read(b"a: |\n  x\n  ---\n  y\nb: '---'\n---x: 1\n") == [{"a": "x\n---\ny\n", "b": "---", "---x": 1}]


def test_directives_belong_to_the_document_after_them():
    """`%YAML` stands before the marker of its own document."""
    assert read(b"%YAML 1.1\n# c\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_line_ends_and_byte_order_mark():
    """Windows writes both."""
    assert read(b"\xef\xbb\xbfa: 1\r\n---\r\nb: 2\r\n") == [{"a": 1}, {"b": 2}]


def test_a_malformed_document_does_not_stop_the_others():
    """Each is reported with the line of the file where it goes wrong."""
    data = b"a: 1\n---\nb: [1\n---\nc: {x: 1,\n  x: 2}\n---\n- list\n"
    data += b"---\nd: *no\n---\ne: \xff\n---\nf: '\x01'\n---\ng: 7\n"
    assert read(data) == [
        {"a": 1},
        (4, "while parsing a flow sequence, did not find expected ',' or ']'"),
        (6, 'the key "x" is there twice'),
        (8, "expected an object, found a list"),
        (10, "the alias *no has no anchor before it"),
        (12, "not UTF-8"),
        (14, "a character that YAML does not allow"),
        {"g": 7},
    ]


def test_digests_do_not_depend_on_the_place():
    """The same text has the same digest with and without a marker before it, and wherever it stands."""
    alone, *behind = split_documents(b"a: 1\n---\nb: 2\n---\na: 1\n", "a.yaml")
    assert alone.digest == behind[1].digest != behind[0].digest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("017", 15),
        ("0o17", 15),
        ("08", 8.0),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-5", -5),
        ("1e3", 1000.0),
        ("1.20", 1.2),
        (".5", 0.5),
        (".inf", inf),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("0x", "0x"),
        ("=", "="),
        ("-", "-"),
        ("9" * 50, "9" * 50),
    ],
)
def test_plain_scalars(text: str, value: object):
    """YAML 1.1 as Kubernetes tools read it."""
    read_value = plain_value(text)
    assert (read_value, type(read_value)) == (value, type(value))


def test_quoted_and_tagged_scalars():
    """Quotes and !!str make strings; other tags must fit."""
    assert load_yaml("{a: 'yes', b: !!str 1, c: !!int '3', d: !!binary aGk=, e: !!float 1}") == {
        "a": "yes",
        "b": "1",
        "c": 3,
        "d": "hi",
        "e": 1,
    }
    assert read(b"a: !!int x\n") == [(1, "the tag tag:yaml.org,2002:int does not fit here")]
    assert read(b"a: !thing x\n") == [(1, "the tag !thing does not fit here")]


def test_keys_are_strings():
    """Numbers and booleans as keys become strings, as in JSON, and may then be there twice."""
    assert load_yaml("{80: a, on: b, 1.5: c}") == {"80": "a", "true": "b", "1.5": "c"}
    assert read(b"80: a\n'80': b\n") == [(2, 'the key "80" is there twice')]
    assert read(b"[1]: a\n") == [(1, "a key must be a string")]


def test_anchors_and_merges():
    """Aliases are the value itself; merged keys yield to those that are there, of two sources the first wins."""
    value = load_yaml("{a: &x {k: 1, l: 2}, b: *x, c: {<<: *x, k: 3}, d: {<<: [{k: 5}, *x]}}")
    assert value == {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 2}, "c": {"k": 3, "l": 2}, "d": {"k": 5, "l": 2}}
    assert read(b"<<: 1\n") == [(1, "<< takes an object or a list of objects")]


def test_documents_that_would_unfold_without_end_are_refused():
    """Ten levels of ten aliases each, and a deep nesting, are refused without being built."""
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (answer,) = read("\n".join(["a0: &a0 [x]", *rows]).encode())
    assert answer == (6, "the aliases stand for more than 100000 values")
    (answer,) = read(b"a: " + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert answer == (1, f"nested more than {MAX_DEPTH} levels deep")


def test_items_of_lists():
    """The items of a list are documents of one line; a typed list says what they are."""
    data = b"apiVersion: v1\nkind: ServiceList\nitems: [{metadata: {name: a}}, {kind: Pod}]\n"
    (chunk,) = split_documents(data, "a.yaml")
    parsed = parse_document(chunk, ORIGIN)
    assert isinstance(parsed, tuple)
    assert [(each.item, each.value.get("kind")) for each in parsed] == [("items[0].", "Service"), ("items[1].", "Pod")]
    assert len({each.digest for each in parsed}) == 2
    assert read(b"kind: List\nitems: 5\n") == [(1, "expected a list of items, found the number 5")]
    assert read(b"kind: List\nitems: [x]\n") == [(1, 'expected an object, found the string "x"')]
    assert read(b"kind: List\nitems:\n") == []


def test_json_files():
    """One document; what is wrong with it has a line where JSON's reader knows one."""
    assert read(b'{"a": 1e2, "b": "\\u00e9"}', "a.json") == [{"a": 100.0, "b": "é"}]
    assert read(b" \n", "a.json") == []
    assert read(b'{"a": 1,\n "b":}', "a.json") == [(2, "not JSON: Expecting value")]
    assert read(b'{"a": 1, "a": 2}', "a.json") == [(1, 'the key "a" is there twice')]
    assert read(b'{"a": NaN}', "a.json") == [(1, "NaN is not JSON")]
    assert read(b"[" * 100_000, "a.json")[0] != []


YAML_PIECES = st.sampled_from(
    [
        "a: ",
        "b",
        "- ",
        "\n",
        "  ",
        "---\n",
        "...\n",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "'",
        '"',
        "|\n",
        ">",
        "&x ",
        "*x",
        "!!str ",
    ]
)
TEXTS = st.lists(YAML_PIECES | st.text(max_size=3), max_size=25).map("".join)


@given(TEXTS.map(str.encode) | st.binary(max_size=60))
@example(b"---\n...\n---")
@example(b"%")
def test_no_bytes_raise(data: bytes):
    """Any file is split into documents that are read or refused, with a line that is in the file."""
    for path in ("a.yaml", "a.json"):
        for chunk in split_documents(data, path):
            parsed = parse_document(chunk, ORIGIN)
            if isinstance(parsed, Rejected):
                assert 1 <= parsed.origin.line <= data.count(b"\n") + data.count(b"\r") + data.count(b"\xe2\x80") + 2
            else:
                assert all(isinstance(each, ParsedDocument) for each in parsed)


def written_as_text(text: str) -> bool:
    """Whether PyYAML quotes what Kubernetes' tools would not read as text: it leaves `0E0` plain, which they call 0."""
    return yaml.safe_dump(text)[0] in "'\"" or plain_value(text) == text


KEYS = st.text("abc", min_size=1, max_size=3)
TEXT = st.text(st.characters(codec="ascii"), max_size=5).filter(written_as_text)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(KEYS, JSON, min_size=1, max_size=3), max_size=4))
def test_what_is_written_is_read(documents: list[dict[str, object]]):
    """YAML written by PyYAML's safe dumper, several documents in a file, comes back as it was."""
    data = yaml.safe_dump_all(documents, explicit_start=True).encode()
    assert read(data) == documents
