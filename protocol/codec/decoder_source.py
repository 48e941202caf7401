r"""The source of decoders: for each message class one function from bytes to a message.

Theory. Objects are made without their constructor: their `__dict__` starts as a copy of the defaults and is filled. A
field is recognised by its whole tag, by comparisons that halve the tags that are left; a known number that comes with
another wire type is unknown, and unknown fields are kept. For

    message Node { string id = 1; repeated Address addresses = 2; google.protobuf.UInt32Value weight = 3; }

the function is, shortened,

    def decode(data, pos, end, into=None):
        if into is None:
            d = defaults.copy()
            d["addresses"] = addresses = []
        else:
            d = into.__dict__
            addresses = d["addresses"]
        unknown = []
        while pos < end:
            start = pos
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = rest_of_tag(data, pos, tag)
            if tag == 10:
                n = data[pos]
                pos += 1
                if n > 127:
                    n, pos = rest_of_varint(data, pos, n)
                d["id"] = data[pos : (pos := pos + n)].decode()
                continue
            ...
            pos = skip(data, pos, tag)
            unknown.append(data[start:pos])
        if pos != end:
            check_end(pos, end)
        ...
        m = new(message)
        m.__dict__ = d
        return m

Truncation. Nothing inside of the loop asks whether there is enough data: a field that is longer than its message puts
`pos` beyond `end`, which ends the loop and is noticed there, and reading behind the data is an IndexError. Whatever is
raised becomes one `DecodeError`.

Merging. A message that comes in pieces (the same field twice) is the sum of its pieces: decoding goes on into the
object that is there already, so its cost is that of its bytes. Of the members of a `oneof` the last one wins.
"""

from __future__ import annotations

from protocol import wire
from protocol.codec import scalars
from protocol.codec.compiling import indent
from protocol.codec.plan import (
    Elapsed,
    Enumeration,
    Explicit,
    Field,
    Implicit,
    Instant,
    Mapped,
    Repeated,
    Scalar,
    Value,
    Wrapped,
    wire_type,
)

_ZEROS: dict[str, object] = {"string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0}


def zero(scalar: str) -> object:
    """The value of a scalar type that stands for absence."""
    return _ZEROS.get(scalar, 0)


# --- the function ----------------------------------------------------------------------------------------------------
def decoder_lines(fields: tuple[Field, ...]) -> list[str]:
    """The whole function."""
    branches = [branch for field in fields for branch in _branches(field, _oneofs(fields))]
    loop = [*_TAG, *_dispatch(sorted(branches)), *_UNKNOWN]
    body = [*_opening(fields), "while pos < end:", "    start = pos", *indent(loop), *_ends_at("end"), *_CLOSING]
    return ["def decode(data, pos, end, into=None):", *indent(body)]


def _opening(fields: tuple[Field, ...]) -> list[str]:
    """Bind `d`, the attributes; the lists and dicts; for each `oneof` the member that is set, at first any."""
    fresh, there = ["d = defaults.copy()"], ["d = into.__dict__"]
    for field in fields:
        if isinstance(field.presence, Repeated | Mapped):
            empty = "[]" if isinstance(field.presence, Repeated) else "{}"
            fresh.append(f'd["{field.name}"] = all_{field.name} = {empty}')
            there.append(f'all_{field.name} = d["{field.name}"]')
    for group, members in _oneofs(fields).items():
        fresh.append(f'oneof_{group} = "{members[0]}"')
        there.append(f'oneof_{group} = next((name for name in {members} if d[name] is not None), "{members[0]}")')
    return ["if into is None:", *indent(fresh), "else:", *indent(there), "unknown = None"]


_TAG = ["tag = data[pos]", "pos += 1", "if tag > 127:", "    tag, pos = rest_of_tag(data, pos, tag)"]

_UNKNOWN = [
    "pos = skip(data, pos, tag)",
    "if unknown is None:",
    "    unknown = []",
    "unknown.append(data[start:pos])",
]

_CLOSING = [
    "if unknown:",
    "    keep(d, unknown)",
    "if into is not None:",
    "    return into",
    "m = new(message)",
    "m.__dict__ = d",
    "return m",
]


def unwrapper_lines(scalar: Scalar) -> list[str]:
    """The whole function for a wrapper message: `value` is that of an earlier piece, or zero."""
    lines, value = _read(scalar, "")
    found = [f"if tag == {8 | wire_type(scalar)}:", *indent([*lines, f"value = {value}"])]
    loop = [*_TAG, *found, "else:", "    pos = skip(data, pos, tag)"]
    body = ["while pos < end:", *indent(loop), *_ends_at("end"), "return value"]
    return ["def decode(data, pos, end, value):", *indent(body)]


def _ends_at(end: str) -> list[str]:
    """The check that what was read ends where it should."""
    return [f"if pos != {end}:", f"    check_end(pos, {end})"]


def _oneofs(fields: tuple[Field, ...]) -> dict[str, tuple[str, ...]]:
    """The groups with more than one member: group -> names of its fields."""
    groups: dict[str, tuple[str, ...]] = {}
    for field in fields:
        if isinstance(field.presence, Explicit) and field.presence.oneof:
            groups[field.presence.oneof] = (*groups.get(field.presence.oneof, ()), field.name)
    return {group: members for group, members in groups.items() if len(members) > 1}


def _dispatch(branches: list[tuple[int, list[str]]]) -> list[str]:
    """Find the branch of `tag`: a few comparisons in a row, or halves. What no branch takes falls through."""
    if len(branches) <= 4:
        return [
            line for tag, lines in branches for line in (f"if tag == {tag}:", *indent(lines), "    continue")
        ]  # fmt: skip
    middle = len(branches) // 2
    return [
        f"if tag < {branches[middle][0]}:",
        *indent(_dispatch(branches[:middle])),
        "else:",
        *indent(_dispatch(branches[middle:])),
    ]


# --- fields ----------------------------------------------------------------------------------------------------------
def _branches(field: Field, oneofs: dict[str, tuple[str, ...]]) -> list[tuple[int, list[str]]]:
    """The tags under which a field may come, and what to do then. Lists of numbers come packed or one by one."""
    tag = field.number << 3 | wire_type(field.value)
    packed = field.number << 3 | wire.DELIMITED
    match field.presence:
        case Implicit():
            return [(tag, _assign(field))]
        case Explicit(oneof):
            choose = _choose(field, oneof) if oneof in oneofs else []
            return [(tag, [*choose, *_assign(field)])]
        case Repeated(packed=False):
            return [(tag, _append(field))]
        case Repeated():
            return [(tag, _append(field)), (packed, _unpack(field))]
        case Mapped(key):
            return [(packed, _add_entry(field, key))]


def _choose(field: Field, oneof: str | None) -> list[str]:
    """The last member of a `oneof` wins: unset the one before."""
    return [
        f'if oneof_{oneof} != "{field.name}":',
        f"    d[oneof_{oneof}] = None",
        f'    oneof_{oneof} = "{field.name}"',
    ]


def _assign(field: Field) -> list[str]:
    """Read a single value. It is put together with what is there, if it is a message that comes in pieces."""
    lines, value = _read(field.value, field.name, there=f'd["{field.name}"]')
    return [*lines, f'd["{field.name}"] = {value}']


def _append(field: Field) -> list[str]:
    """Read one value of a list."""
    lines, value = _read(field.value, field.name)
    return [*lines, f"all_{field.name}.append({value})"]


def _unpack(field: Field) -> list[str]:
    """Read all numbers of a packed list."""
    return [*_LENGTH, "stop = pos + n", "while pos < stop:", *indent(_append(field)), *_ends_at("stop")]


def _add_entry(field: Field, key: Scalar) -> list[str]:
    """Read an entry of a map, without making a message of it. What is not in it is zero."""
    key_lines, key_read = _read(key, field.name)
    value_lines, value_read = _read(field.value, field.name)
    return [
        *_LENGTH,
        "stop = pos + n",
        f"key, value = {zero(key.type)!r}, None",
        "while pos < stop:",
        *indent(_TAG),
        f"    if tag == {8 | wire_type(key)}:",
        *indent(indent([*key_lines, f"key = {key_read}"])),
        f"    elif tag == {16 | wire_type(field.value)}:",
        *indent(indent([*value_lines, f"value = {value_read}"])),
        "    else:",
        "        pos = skip(data, pos, tag)",
        *_ends_at("stop"),
        f"all_{field.name}[key] = {_zero(field)} if value is None else value",
    ]


# --- values ----------------------------------------------------------------------------------------------------------
_LENGTH = ["n = data[pos]", "pos += 1", "if n > 127:", "    n, pos = rest_of_varint(data, pos, n)"]

_SLICE = "data[pos : (pos := pos + n)]"


def _read(value: Value, name: str, there: str = "") -> tuple[list[str], str]:
    """Lines that come first, and the expression that reads one value and leaves `pos` behind it.

    `there` is an expression for the value, or None, that was read before for the same field, if there can be one.
    """
    match value:
        case Enumeration():
            return _read_varint("int32"), f"enum_{name}[v]"
        case Scalar("bool"):
            return _read_varint("varint"), "v != 0"
        case Scalar("string"):
            return _LENGTH, f"{_SLICE}.decode()"
        case Scalar("bytes"):
            return _LENGTH, _SLICE
        case Scalar(fixed) if fixed in scalars.FIXED:
            size = scalars.FIXED[fixed].size
            return [f"pos += {size}"], f"unpack_{fixed}(data, pos - {size})[0]"
        case Scalar(integer):
            return _read_integer(integer)
        case _:
            return _LENGTH, _decoded(value, name, there)


def _read_integer(name: str) -> tuple[list[str], str]:
    """A varint of this type."""
    match name:
        case "sint32" | "sint64":
            return _read_varint("uint32" if name == "sint32" else "varint"), "unzigzag(v)"
        case "uint64":
            return _read_varint("varint"), "v"
        case _:
            return _read_varint(name), "v"


def _read_varint(name: str) -> list[str]:
    """One byte, or the rest of it by a function that knows the type."""
    return ["v = data[pos]", "pos += 1", "if v > 127:", f"    v, pos = rest_of_{name}(data, pos, v)"]


def _decoded(value: Value, name: str, there: str) -> str:
    """A message that is in the data, as the Python value that its field has."""
    match value:
        case Wrapped(_, scalar):
            before = f"{there} or {zero(scalar.type)!r}" if there else repr(zero(scalar.type))
            return f"decode_{name}(data, pos, (pos := pos + n), {before})"
        case Elapsed():
            return f"elapsed({_merged('duration', there)})"
        case Instant():
            return f"instant({_merged('timestamp', there)})"
        case _:
            return f"decode_{name}(data, pos, (pos := pos + n){f', {there}' if there else ''})"


def _merged(encode: str, there: str) -> str:
    """The bytes of a message, behind those of the piece that is there: one behind the other they are the sum."""
    return f"{_SLICE} if {there} is None else {encode}({there}) + {_SLICE}" if there else _SLICE


def _zero(field: Field) -> str:
    """What the value of a map's entry is that does not say."""
    match field.value:
        case Scalar(name) | Wrapped(_, Scalar(name)):
            return repr(zero(name))
        case Enumeration():
            return f"enum_{field.name}[0]"
        case Elapsed():
            return 'elapsed(b"")'
        case Instant():
            return 'instant(b"")'
        case _:
            return f'decode_{field.name}(b"", 0, 0)'
