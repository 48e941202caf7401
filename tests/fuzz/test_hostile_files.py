"""Files that were written to hurt: each is reported, or read as what it says, in little time and memory."""

from __future__ import annotations

import time
import tracemalloc
from itertools import product

import pytest

from tests.fuzz.test_documents import build
from trierarch.config.folder import Folder, FolderChange, FolderState, update_folder
from trierarch.config.store import ConfigView
from trierarch.config.yaml_values import plain_value
from trierarch.push.steps import run_steps

FOLDER = Folder(source="files", cluster="Kubernetes")
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: "
DEEP = "nested more than 100 levels deep"
FLOW = "exceeded maximum nesting depth"


def read(data: bytes | str, path: str) -> FolderChange:
    """What a file brings."""
    content = data.encode() if isinstance(data, str) else data
    _, change = run_steps(update_folder(FOLDER, FolderState(), {path: content}))
    return change


def reason(data: bytes | str, path: str = "it.yaml") -> str:
    """Why a file of one document is not in force."""
    (rejected,) = read(data, path).rejected
    return rejected.reason


def laughs(leaf: str, line: str) -> str:
    """Ten times ten times ten ...: each line names the one before ten times."""
    lines = [f"a: &a {leaf}"]
    for this, before in zip("bcdefghij", "abcdefghi", strict=True):
        lines.append(f"{this}: &{this} {line % ', '.join([f'*{before}'] * 10)}")
    return "\n".join(lines)


# --- expansion, depth ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", [laughs("[x, x]", "[%s]"), laughs("{x: 1, y: 2}", "{<<: [%s], z: 1}")], ids=["aliases", "merge keys"]
)
def test_a_billion_laughs(text):
    """What aliases stand for is counted, not built."""
    assert reason(text) == "the aliases stand for more than 100000 values"


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {<<: *a}", "a: &a {b: {c: *a}}"])
def test_what_contains_itself(text):
    """An anchor is known after its value only."""
    assert reason(text) == "the alias *a has no anchor before it"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "[" * 100_000, FLOW),
        ("a: " + "[" * 100_000 + "]" * 100_000, FLOW),
        ("{a: " * 100_000 + "}" * 100_000, DEEP),
        ("- " * 100_000, DEEP),
        ("? " * 100_000, DEEP),
        ("".join(" " * level + "a:\n" for level in range(1000)), DEEP),
    ],
    ids=["open lists", "lists", "objects", "items", "keys", "lines"],
)
def test_depth_is_bounded(text, words):
    """A hundred thousand levels are refused at the hundredth."""
    assert words in reason(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 500 + "1" + "}" * 500])
def test_depth_is_bounded_in_json_too(text):
    """However much Python would recurse."""
    assert reason(text, "it.json") == DEEP


def test_a_hundred_levels_are_enough():
    """What is as deep as allowed is read, and a kind that nobody knows."""
    inner = '{"a":' * 98 + "1" + "}" * 98
    assert read(
        '{"apiVersion":"v1","kind":"Odd","metadata":{"name":"x"},"spec":' + inner + "}", "it.json"
    ).unknown_kinds


# --- size ------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("before", ["a: ", 'a: "', "", "# ", SERVICE + "{type: "])
def test_a_line_of_fifty_megabytes(before):
    """One line is one scalar, or nothing: it takes a second and no more."""
    began = time.process_time()
    read(before.encode() + b"x" * 50_000_000 + (b'"' if before.endswith('"') else b""), "it.yaml")
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_values_are_counted():
    """Beyond two million a document is too large for anybody."""
    assert reason(b"[" + b"1," * 2_000_001 + b"]") == "more than 2000000 values in one document"


def test_reports_repeat_little_of_a_file():
    """What a megabyte of nonsense is answered with is a sentence."""
    for text in (
        "x" * 10**6,
        SERVICE + "{type: [" + "x" * 10**6 + "]}",
        SERVICE + '{type: 1, "' + "k" * 10**6 + '": 2}',
    ):
        for finding in (*read(text, "it.yaml").rejected, *read(text, "it.yaml").remarks):
            assert len(finding.reason) + len(finding.path) < 1000


def test_a_key_that_is_there_twice_among_many():
    """It is found in one walk, however many keys there are."""
    keys = ",".join(f'"k{number}":1' for number in range(100_000))
    began = time.process_time()
    assert reason(f'{{{keys},"k99999":1}}', "it.json") == 'the key "k99999" is there twice'
    assert time.process_time() - began < 2


def test_digits_are_bounded():
    """A million digits are a string in YAML, and too many for a number in JSON."""
    assert "number" in reason("a: !!int " + "9" * 100_000) or "fit" in reason("a: !!int " + "9" * 100_000)
    assert "digits" in reason('{"a":' + "9" * 1_000_000 + "}", "it.json")


def test_memory_is_given_back():
    """A file that is refused leaves a report, not its contents."""
    text = (laughs("[x, x]", "[%s]") + "\n" + "k: v\n" * 50_000).encode()
    read(text, "it.yaml")
    tracemalloc.start()
    try:
        state, _ = run_steps(update_folder(FOLDER, FolderState(), {"it.yaml": text}))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 200_000
    assert most < 20 * len(text)
    assert state.findings


# --- characters ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (SERVICE.encode() + b"{a: '\xff'}", "not UTF-8"),
        (SERVICE.encode() + b"{a: '\xed\xa0\x80'}", "not UTF-8"),
        (SERVICE.encode("utf-16"), "not UTF-8"),
        (("\ufeff" + SERVICE).encode("utf-16-be"), "not UTF-8"),
        (("\ufeff" + SERVICE).encode("utf-32"), "not UTF-8"),
        (SERVICE.encode() + b"{a: \x00}", "a character that YAML does not allow"),
        (SERVICE.encode() + b"{a: \x1b[31m}", "a character that YAML does not allow"),
    ],
    ids=["Latin-1", "surrogate", "UTF-16", "UTF-16 BE", "UTF-32", "NUL", "escape"],
)
def test_bytes_that_are_no_text(data, words):
    """Kubernetes reads UTF-8 only; nobody guesses."""
    assert words in reason(data)


def test_a_byte_order_mark_is_skipped():
    """Of UTF-8."""
    assert read(b"\xef\xbb\xbf" + SERVICE.encode() + b"{ports: [{port: 80}]}", "it.yaml").upserts


@pytest.mark.parametrize("path", ["it.yaml", "it.json"])
def test_halves_of_characters(path):
    """A name with half a surrogate pair cannot be encoded in anything: it is refused, or harmless in a snapshot."""
    text = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"\\ud800"},"spec":{"ports":[{"port":80}]}}'
    change = read(text, path)
    build(ConfigView().apply(change.upserts, ())[0])
    assert change.rejected or change.upserts


# --- tags, keys, documents -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value",
    [
        "!!python/name:os.system ''",
        "!!python/object/apply:os.system ['echo']",
        "!!python/object/new:os.system [echo]",
        "!!python/module:os ''",
        "!!set {a, b}",
        "!foo bar",
        "!!timestamp 2024-01-01",
        "!!binary /w==",
    ],
)
def test_tags_make_nothing(value):
    """No tag makes anything but plain data: it is refused, or what it holds is read as plain data."""
    change = read(SERVICE + f"{{type: {value}}}", "it.yaml")
    assert all(type(each.spec.type) is str for each in change.upserts)
    assert change.rejected or change.upserts


@pytest.mark.parametrize("keys", ["{type: a, type: b}", "{1: a, '1': b}", "{[a]: b}", "{{a: b}: c}", "{null: a}"])
def test_keys_are_distinct_strings(keys):
    """What no JSON object could be is refused."""
    assert "key" in reason(SERVICE + keys)


@pytest.mark.parametrize("alphabet", ["0123456789eE+-._", "0xob_-+ABCDEF19.", "._", "_0", "+-.infaN~"])
def test_every_short_scalar_is_read(alphabet):
    """Whatever looks like a number and is none is a string: nothing is raised. `._` once was."""
    for length in range(1, 4):
        for letters in product(alphabet, repeat=length):
            text = "".join(letters)
            assert isinstance(plain_value(text), str | int | float | None), text


def test_merge_keys():
    """They work as everywhere: own keys win, of several sources the first."""
    (service,) = read(
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
        "spec: {<<: [{type: A, clusterIP: 10.0.0.1}, {type: B}], type: C, ports: [{port: 80}]}",
        "it.yaml",
    ).upserts
    assert (service.spec.type, service.spec.cluster_ip) == ("C", "10.0.0.1")


@pytest.mark.parametrize("text", ["---\n" * 50_000, "\n" * 10**6, "#\n" * 10**5, "...\n" * 1000, " " * 10**6])
def test_files_without_content_are_empty(text):
    """Nothing in force, nothing to report."""
    change = read(text, "it.yaml")
    assert (change.upserts, change.rejected) == ((), ())


def test_each_of_many_broken_documents_is_reported_where_it_stands():
    """One does not hide another."""
    change = read("a: [\n---\n" * 500, "it.yaml")
    assert len(change.rejected) == 500
    assert [each.origin.line for each in change.rejected][:3] == [2, 4, 6]
