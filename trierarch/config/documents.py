"""Files to documents: split first, then parse each alone, so that a malformed document never stops the others.

A line that begins with `---` or `...` ends a document wherever it stands, also inside quotes and block scalars (YAML
1.1 §4.1.4 forbids them there), so a file can be split without parsing it. A document is known by the digest of its
text: what has not changed need not be parsed again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from yaml import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from trierarch.config.findings import Rejected
from trierarch.config.scalars import describe
from trierarch.config.yaml_values import MAX_DEPTH, Unreadable, load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.config.objects import Origin

_BOUNDARY = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(rb"^%", re.MULTILINE)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LIST_SUFFIX = "List"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The text of one document. Lines count from 1: `start` is the first of the text, `line` the first of content."""

    text: bytes
    start: int
    line: int
    digest: bytes
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """One object. `item` is its place in a `kind: List`, such as "items[2].", or ""."""

    line: int
    digest: bytes
    value: Mapping[str, object]
    item: str = ""


def split_documents(data: bytes, path: str) -> tuple[Chunk, ...]:
    """The documents of a file that have any content. A `.json` file is one document."""
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if path.endswith(".json"):
        return (_chunk(data, 1, 1, json=True),) if data.strip() else ()
    return tuple(_yaml_chunks(data))


def parse_document(chunk: Chunk, origin: Origin) -> tuple[ParsedDocument, ...] | Rejected:
    """The objects of a document: one, or none if it is empty, or the items of a `kind: List`.

    `origin` is the file's; what is wrong is reported with the line where it stands.
    """
    origin = replace(origin, line=chunk.line)
    try:
        value = _load(chunk)
    except Unreadable as fault:
        return _unreadable(replace(origin, line=chunk.start + fault.line), fault.reason, fault.hint)
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        line = chunk.start + mark.line if mark else chunk.line
        return _unreadable(replace(origin, line=line), _sentence(fault))
    except YAMLError as fault:
        return _unreadable(_at_character(origin, chunk, fault), "a character that YAML does not allow")
    if value is None:
        return ()
    if not isinstance(value, dict):
        return _unreadable(origin, f"expected an object, found {describe(value)}")
    return _expand(ParsedDocument(line=chunk.line, digest=chunk.digest, value=value), origin)


def _yaml_chunks(data: bytes) -> Iterator[Chunk]:
    begin, start = 0, 1
    for boundary in _BOUNDARY.finditer(data):
        at = boundary.start()
        text = data[begin:at]
        if _is_directives(text):
            continue
        yield from _with_content(text, start)
        start += text.count(b"\n")
        begin = at
        if boundary[0] == b"...":
            begin = (data.find(b"\n", at) + 1) or len(data)
            start += 1
    yield from _with_content(data[begin:], start)


def _with_content(text: bytes, start: int) -> Iterator[Chunk]:
    for number, line in enumerate(text.removeprefix(b"---").split(b"\n"), start):
        content = line.strip()
        if content and not content.startswith(b"#"):
            yield _chunk(text, start, number)
            return


def _is_directives(text: bytes) -> bool:
    """Whether this is only what stands before the `---` of its document, such as `%YAML 1.1`."""
    if not _DIRECTIVE.search(text):
        return False
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
    return bool(lines) and all(line.startswith(b"%") for line in lines)


def _chunk(text: bytes, start: int, line: int, *, json: bool = False) -> Chunk:
    """The digest does not cover the `---`: the first document of a file has none until another comes before it."""
    digest = blake2b(text.removeprefix(b"---").lstrip(b"\r\n"), digest_size=16).digest()
    return Chunk(text=text, start=start, line=line, digest=digest, json=json)


def _load(chunk: Chunk) -> object:
    try:
        text = chunk.text.decode()
    except UnicodeDecodeError as fault:
        raise Unreadable(chunk.text.count(b"\n", 0, fault.start), "not UTF-8") from None
    return _load_json(text) if chunk.json else load_yaml(text)


def _load_json(text: str) -> object:
    try:
        value: object = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise Unreadable(fault.lineno - 1, f"not JSON: {fault.msg}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as fault:
        raise Unreadable(0, f"not JSON that can be read: {fault}") from None
    _check_depth(value)
    return value


def _check_depth(value: object) -> None:
    """JSON may be as deep as YAML, and no deeper: whoever reads the values may recurse."""
    level, depth = [value], 0
    while level := [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()


def _inside(value: dict[str, object] | list[object]) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value


def _too_deep() -> Unreadable:
    return Unreadable(0, f"nested more than {MAX_DEPTH} levels deep")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise Unreadable(0, f'the key "{twice}" is there twice')
    return entries


def _no_constant(name: str) -> object:
    raise Unreadable(0, f"{name} is not JSON")


def _expand(document: ParsedDocument, origin: Origin) -> tuple[ParsedDocument, ...] | Rejected:
    """The items of a list; other documents as they are."""
    kind, items = document.value.get("kind"), document.value.get("items")
    if not isinstance(kind, str) or not kind.endswith(_LIST_SUFFIX) or "items" not in document.value:
        return (document,)
    if items is None:
        return ()
    if not isinstance(items, list):
        return _unreadable(origin, f"expected a list of items, found {describe(items)}", path=f"{document.item}items")
    expanded: list[ParsedDocument] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            path = f"{document.item}items[{index}]"
            return _unreadable(origin, f"expected an object, found {describe(item)}", path=path)
        expanded.append(_item(document, index, _typed(item, document.value, kind)))
    return tuple(expanded)


def _item(document: ParsedDocument, index: int, value: Mapping[str, object]) -> ParsedDocument:
    digest = blake2b(document.digest + str(index).encode(), digest_size=16).digest()
    return ParsedDocument(line=document.line, digest=digest, value=value, item=f"items[{index}].")


def _typed(item: dict[str, object], around: Mapping[str, object], kind: str) -> Mapping[str, object]:
    """The items of a `VirtualServiceList` need not say what they are."""
    if kind == _LIST_SUFFIX or "kind" in item:
        return item
    return {"apiVersion": around.get("apiVersion"), "kind": kind.removesuffix(_LIST_SUFFIX), **item}


def _unreadable(origin: Origin, reason: str, hint: str = "", path: str = "") -> Rejected:
    return Rejected(origin=origin, key=None, path=path, reason=reason, hint=hint)


def _sentence(fault: MarkedYAMLError) -> str:
    parts = [part for part in (fault.context, fault.problem) if part]
    return ", ".join(parts) or "malformed YAML"


def _at_character(origin: Origin, chunk: Chunk, fault: YAMLError) -> Origin:
    if not isinstance(fault, ReaderError):
        return origin
    return replace(origin, line=chunk.start + chunk.text.decode()[: fault.position].count("\n"))
