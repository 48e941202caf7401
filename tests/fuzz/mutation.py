"""Mutations of bytes and of YAML text: seeded, so that each run is the same and a failure names its seed."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from protocol.wire_reading import read_varint, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

MOST = 6
"""Mutations of one case."""


def mutate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The data with a few changes, some of them pieces of others."""
    for _ in range(random.randint(1, MOST)):
        data = random.choice(_BYTE_MUTATIONS)(random, data, random.choice(others))
    return data


def mutate_message(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A protobuf message with fields dropped, repeated, moved or taken from others, perhaps its bytes too."""
    fields = list(fields_of(data))
    for _ in range(random.randint(0, MOST)):
        at = _place(random, fields)
        match random.randrange(4):
            case 0:
                del fields[at : at + 1]
            case 1:
                fields[at:at] = random.choices(fields or [b""], k=2)
            case 2:
                fields.insert(at, random.choice(list(fields_of(random.choice(others))) or [b""]))
            case _:
                random.shuffle(fields)
    message = b"".join(fields)
    return mutate(random, message, others) if random.random() < 0.4 else message


def fields_of(data: bytes) -> Iterator[bytes]:
    """The fields of a well-formed message without groups."""
    at = 0
    while at < len(data):
        tag, end = read_varint(data, at)
        end = skip(data, end, tag)
        yield data[at:end]
        at = end


def mutate_document(random: Random, document: object, others: Sequence[object], most: int = 4) -> object:
    """A document of plain values with a few changes: values dropped, replaced, or taken from others."""
    document = deepcopy(document)
    for _ in range(random.randint(1, most)):
        places = list(_places(document))
        if not places:
            break
        holder, key = random.choice(places)
        match random.randrange(4):
            case 0:
                del holder[key]
            case 1:
                holder[key] = random.choice(_VALUES)
            case 2:
                source, name = random.choice(list(_places(random.choice(others))))
                holder[key] = deepcopy(source[name])
            case _:
                source, name = random.choice(places)
                holder[key] = deepcopy(source[name])
    return document


def _places(value: object) -> Iterator[tuple[Any, Any]]:
    """Where values stand: what holds each, and under which key or index."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in entries:
        yield value, key
        yield from _places(each)


_VALUES = (
    None, True, False, 0, 1, -1, 65_535, 65_536, 2**63, 0.5, "", "x", "*", "*.example.com", "web", "web.shop", "./*",
    "~/*", "10.0.0.1", "10.0.0.0/8", "::1", "0.0.0.0/0", "1s", "0s", "-1s", "1h", "99999999h", "80", "http", "HTTP",
    "TCP", "TLS", "HTTPS", "GRPC", "MONGO", "UDP", "NONE", "DNS", "STATIC", "SIMPLE", "MUTUAL", "ISTIO_MUTUAL",
    "STRICT", "ROUND_ROBIN", "PASSTHROUGH", "unix:///a", "(", ".*", "a" * 300, "ü", "\0", "a\nb", "%",
    "spiffe://a/b", {}, [], [None], [{}], ["*"], {"": ""}, {"a": None}, {"app": "web"}, [1, "a", {}],
    {"exact": ""}, {"regex": "("},
)  # fmt: skip


def mutate_text(random: Random, text: str, others: Sequence[str]) -> str:
    """A YAML text with a few changes: of lines, of words, of characters."""
    for _ in range(random.randint(1, 3)):
        text = random.choice(_TEXT_MUTATIONS)(random, text, random.choice(others))
    return text


def _place(random: Random, data: Sequence) -> int:
    return random.randint(0, len(data))


# --- bytes -----------------------------------------------------------------------------------------------------------
def _flip(random: Random, data: bytes, _: bytes) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _set_byte(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))]) + data[at + 1 :]


def _insert(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]


def _cut(random: Random, data: bytes, _: bytes) -> bytes:
    return data[: _place(random, data)]


def _drop(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + data[at + random.randint(1, 20) :]


def _repeat(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + data[at : at + random.randint(1, 40)] * random.randint(2, 5) + data[at:]


def _splice(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(random, data)] + other[_place(random, other) :]


def _append(_: Random, data: bytes, other: bytes) -> bytes:
    return data + other


def _long_varint(random: Random, data: bytes, _: bytes) -> bytes:
    at = _place(random, data)
    return data[:at] + b"\xff" * random.randint(1, 11) + b"\x01" + data[at + 1 :]


_BYTE_MUTATIONS: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    _flip, _flip, _set_byte, _insert, _cut, _drop, _repeat, _splice, _append, _long_varint,
)  # fmt: skip


# --- text ------------------------------------------------------------------------------------------------------------
_TOKENS = (
    "&a ", "*a", "<<: *a", "!!python/object/apply:os.system [id]", "!!str ", "!!int ", "!!binary ", "? ", "- ", ": ",
    "{", "}", "[", "]", ",", "'", '"', "|", ">", "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "\0", "\x85", "\ufeff",
    "null", "~", "true", "yes", "0", "-1", "017", "0x1F", "1e400", ".nan", ".inf", "9" * 30, "12:30:45", "2024-01-01",
    "*", "**", "~/x", "./*", "a" * 300, "ü", "💥", "{}", "[]", '""', "10.0.0.0/33", "::1", "1s", "-1s", "1h1h", "0s",
    "apiVersion: v1", "kind: List", "items:", "metadata:", "name:", "spec:", "\n", "  ", "(", "(?<=a)", "%", "\\",
)  # fmt: skip


def _by_lines(change: Callable[[Random, list[str], list[str]], list[str]]) -> Callable[[Random, str, str], str]:
    def changed(random: Random, text: str, other: str) -> str:
        return "\n".join(change(random, text.split("\n"), other.split("\n")))

    return changed


def _drop_line(random: Random, lines: list[str], _: list[str]) -> list[str]:
    at = _place(random, lines)
    return lines[:at] + lines[at + 1 :]


def _repeat_line(random: Random, lines: list[str], _: list[str]) -> list[str]:
    at = _place(random, lines)
    return lines[:at] + lines[at : at + random.randint(1, 4)] + lines[at:]


def _swap_lines(random: Random, lines: list[str], _: list[str]) -> list[str]:
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def _indent(random: Random, lines: list[str], _: list[str]) -> list[str]:
    at = random.randrange(len(lines))
    lines[at] = "  " + lines[at] if random.random() < 0.5 else lines[at].removeprefix("  ")
    return lines


def _borrow_lines(random: Random, lines: list[str], others: list[str]) -> list[str]:
    at, source = _place(random, lines), _place(random, others)
    return lines[:at] + others[source : source + random.randint(1, 6)] + lines[at:]


def _insert_token(random: Random, text: str, _: str) -> str:
    at = _place(random, text)
    return text[:at] + random.choice(_TOKENS) + text[at:]


def _replace_value(random: Random, text: str, _: str) -> str:
    """Put something else in the place of one word."""
    words = text.split(" ")
    words[random.randrange(len(words))] = random.choice(_TOKENS)
    return " ".join(words)


def _swap_words(random: Random, text: str, _: str) -> str:
    words = text.split(" ")
    first, second = random.randrange(len(words)), random.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return " ".join(words)


def _drop_characters(random: Random, text: str, _: str) -> str:
    at = _place(random, text)
    return text[:at] + text[at + random.randint(1, 5) :]


_TEXT_MUTATIONS: tuple[Callable[[Random, str, str], str], ...] = (
    *map(_by_lines, (_drop_line, _repeat_line, _swap_lines, _indent, _borrow_lines)),
    _insert_token, _replace_value, _replace_value, _swap_words, _drop_characters,
)  # fmt: skip
