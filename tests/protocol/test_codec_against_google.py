"""The codec beside Google's library, over every message class that was generated, both ways.

A random message is built with Google's classes from their descriptors; its twin is built with ours, field by field.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import Default as Pool
from google.protobuf.message import DecodeError as GoogleDecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc
from hypothesis import given, settings
from hypothesis import strategies as st

import protocol.proto
from protocol.codec import DecodeError, decode, encode
from protocol.codec.any_message import PREFIX, message_class
from protocol.proto.message_pool import default_message_pool
from tools.generate_proto import NEWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from betterproto2 import Message
    from google.protobuf.message import Message as GoogleMessage

WELL_KNOWN = "google.protobuf."
KINDS = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
WRAPPERS = {f"{kind}Value" for kind in KINDS}
TIMES = {"Duration", "Timestamp"}
PROTO = Path(protocol.proto.__file__).parent
SOURCES = PROTO.parent / "proto_src"
UNKNOWN = b"\xca\xc3\xf3\xff\x0f\x03abc"  # field 536,800,313, length-delimited: no message has it


# --- the classes of both libraries ------------------------------------------------------------------------------------
def import_ours() -> list[str]:
    """Import everything that was generated; the full names of all messages."""
    for path in sorted(PROTO.rglob("__init__.py")):
        import_module(".".join(("protocol.proto", *path.parent.relative_to(PROTO).parts)))
    return sorted(url.removeprefix(PREFIX) for url in default_message_pool.url_to_type)


def import_theirs(names: list[str]) -> None:
    """Import Google's classes for these messages, from xds-protos or from the same sources as ours."""
    packages = {".".join(part for part in name.split(".") if not part[0].isupper()) for name in names}
    for path in metadata.files("xds-protos") or []:
        if path.name.endswith("_pb2.py") and ".".join(path.parent.parts) in packages:
            import_module(".".join(path.with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def own_sources(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Google's classes for the messages that are not in xds-protos."""
    output = tmp_path_factory.mktemp("proto") / "own.binpb"
    descriptors = output.with_suffix(".imports")
    imports = descriptor_pb2.FileDescriptorSet()
    for name in ("google/rpc/status.proto", "envoy/config/core/v3/base.proto"):
        add_with_imports(imports, Pool().FindFileByName(name))
    descriptors.write_bytes(imports.SerializeToString())
    own = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    assert (
        protoc.main(["", f"--descriptor_set_in={descriptors}", f"-I{SOURCES}", f"--descriptor_set_out={output}", *own])
        == 0
    )
    for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
        Pool().AddSerializedFile(file.SerializeToString())


def add_with_imports(files: descriptor_pb2.FileDescriptorSet, file) -> None:
    """Add a file's descriptor behind those of its imports."""
    if file.name in {known.name for known in files.file}:
        return
    for imported in file.dependencies:
        add_with_imports(files, imported)
    file.CopyToProto(files.file.add())


NAMES = import_ours()
import_theirs(NAMES)


@cache
def google_class(name: str) -> type[GoogleMessage]:
    """Google's class of a message."""
    return message_factory.GetMessageClass(Pool().FindMessageTypeByName(name))


def our_class(name: str) -> type[Message]:
    """Our class of a message."""
    return message_class(PREFIX + name)


# --- random messages --------------------------------------------------------------------------------------------------
def random_message(name: str, source: random.Random, depth: int = 3, share: float = 0.5) -> GoogleMessage:
    """A message with about this share of its fields set, fewer in nested ones."""
    message = google_class(name)()
    fill(message, source, depth, share)
    return message


def fill(message: GoogleMessage, source: random.Random, depth: int, share: float) -> None:
    """Set random fields of a message. Of a oneof several may be drawn: the last one stays."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Duration":
        set_time(message, source.choice((-1, 1)) * source.choice((0, 1, 315_576_000_000)), source)
    elif name == "google.protobuf.Timestamp":
        set_time(message, source.choice((-62_135_596_800, -1, 0, 1, 253_402_300_798)), source, forward=True)
    else:
        for field in message.DESCRIPTOR.fields:
            if source.random() < share:
                set_field(message, field, source, depth, share)


def set_time(message, seconds: int, source: random.Random, *, forward: bool = False) -> None:
    """Whole microseconds, which is what Python has."""
    microseconds = source.choice((0, 1, 500_000, 999_999))
    message.seconds = seconds
    message.nanos = microseconds * 1000 * (-1 if seconds < 0 and not forward else 1)


def set_field(message, field: FieldDescriptor, source: random.Random, depth: int, share: float) -> None:
    """Set one field."""
    if is_map(field):
        add_entries(message, field, source, depth, share)
    elif field.is_repeated:
        for _ in range(source.randint(1, 3)):
            if field.message_type is None:
                getattr(message, field.name).append(random_scalar(field, source))
            elif depth:
                fill(getattr(message, field.name).add(), source, depth - 1, share * 0.7)
    elif field.message_type is None:
        setattr(message, field.name, random_scalar(field, source))
    elif depth:
        getattr(message, field.name).SetInParent()
        fill(getattr(message, field.name), source, depth - 1, share * 0.7)


def add_entries(message, field: FieldDescriptor, source: random.Random, depth: int, share: float) -> None:
    """Add entries to a map."""
    key, value = field.message_type.fields
    for _ in range(source.randint(1, 3)):
        entries, entry = getattr(message, field.name), random_scalar(key, source)
        if value.message_type is None:
            entries[entry] = random_scalar(value, source)
        elif depth:
            fill(entries[entry], source, depth - 1, share * 0.7)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def random_scalar(field: FieldDescriptor, source: random.Random):
    """A value of a scalar field, with a liking for the ends of its range."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return source.random() < 0.5
        case FieldDescriptor.CPPTYPE_INT32:
            return source.choice((0, 1, -1, 127, 128, -(2**31), 2**31 - 1))
        case FieldDescriptor.CPPTYPE_UINT32:
            return source.choice((0, 1, 127, 128, 16383, 16384, 2**32 - 1))
        case FieldDescriptor.CPPTYPE_INT64:
            return source.choice((0, 1, -1, 2**32, -(2**63), 2**63 - 1))
        case FieldDescriptor.CPPTYPE_UINT64:
            return source.choice((0, 1, 2**32, 2**64 - 1))
        case FieldDescriptor.CPPTYPE_ENUM:
            return source.choice((*(value.number for value in field.enum_type.values), 9999, -1))
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return source.choice((0.0, -0.0, 1.5, -(2.0**100), math.inf, 0.1))
    text = source.choice(("", "a", "outbound|80||é.svc", "x" * 127, "y" * 128, "\0\U0001f600"))
    return text if field.type == FieldDescriptor.TYPE_STRING else text.encode() + b"\xff"


# --- twins ------------------------------------------------------------------------------------------------------------
def twin(message: GoogleMessage):
    """The same message of our class, made by its constructor."""
    ours = our_class(message.DESCRIPTOR.full_name)
    names = {metadata.number: name for name, metadata in ours._betterproto.meta_by_field_name.items()}
    values = {names[field.number]: twin_field(message, field) for field in message.DESCRIPTOR.fields}
    return ours(**{name: value for name, value in values.items() if value is not None})


def twin_field(message, field: FieldDescriptor):
    """The Python value of a field, None if it is absent."""
    value = getattr(message, field.name)
    if is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {key: twin_value(value[key], item) for key in value}
    if field.is_repeated:
        return [twin_value(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return twin_value(value, field)


def twin_value(value, field: FieldDescriptor):
    """One value."""
    if field.message_type is None:
        return value
    name = field.message_type.full_name.removeprefix(WELL_KNOWN)
    if name == "Duration":
        return timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "Timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return value.value if name in WRAPPERS else twin(value)


# --- claims -----------------------------------------------------------------------------------------------------------
def check_both_ways(theirs: GoogleMessage) -> None:
    """Ours and theirs have the same bytes, and each library reads the other's."""
    ours, expected = twin(theirs), theirs.SerializeToString(deterministic=True)
    written, read = encode(ours), decode(type(ours), expected)
    assert same_but_for_maps(written, theirs)
    assert encode(read) == written
    assert read == ours


def same_but_for_maps(written: bytes, theirs: GoogleMessage) -> bool:
    """Whether Google reads `written` as `theirs`, byte for byte but for the order of map entries."""
    expected = theirs.SerializeToString(deterministic=True)
    if not has_long_map(theirs):
        return written == expected
    again = type(theirs).FromString(written).SerializeToString(deterministic=True)
    return len(written) == len(expected) and again == expected


def has_long_map(message: GoogleMessage) -> bool:
    """Whether there is a map of which the entries can be in another order."""
    return any(
        (is_map(field) and len(value) > 1) or any(map(has_long_map, nested_messages(field, value)))
        for field, value in message.ListFields()
    )


def test_every_message_is_generated_from_the_same_fields() -> None:
    """Each message has the field numbers that Google's class of the same name has, and those that it lacks yet."""
    for name in NAMES:
        descriptor = google_class(name).DESCRIPTOR
        message, _, number = NEWER.get(descriptor.file.name, ("", "", 0))
        newer = {number} if message and descriptor.full_name.endswith(f".{message}") else set()
        numbers = {field.number for field in descriptor.fields}
        assert numbers.isdisjoint(newer), f"{name}: take {number} out of NEWER"
        ours = {metadata.number for metadata in our_class(name)._betterproto.meta_by_field_name.values()}
        assert ours == numbers | newer, name


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_message_has_the_same_bytes_as_googles(share: float) -> None:
    """Each message, empty, half full and full, is written and read as Google does."""
    for name in NAMES:
        check_both_ways(random_message(name, random.Random(f"{name} {share}"), depth=2, share=share))


@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**64))
def test_random_messages_have_the_same_bytes_as_googles(name: str, seed: int) -> None:
    """Any message is written and read as Google does."""
    check_both_ways(random_message(name, random.Random(seed)))


@pytest.mark.slow
@given(seed=st.integers(0, 2**64))
@settings(max_examples=settings.default.max_examples // 4)
def test_deep_random_messages_have_the_same_bytes_as_googles(seed: int) -> None:
    """Any message of any class, four levels deep, is written and read as Google does."""
    for name in NAMES:
        check_both_ways(random_message(name, random.Random(f"{seed} {name}"), depth=4, share=0.8))


@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**64))
@settings(max_examples=settings.default.max_examples // 4)
def test_data_that_is_cut_short_is_judged_as_google_does(name: str, seed: int) -> None:
    """Cut anywhere, the data is rejected, unless a field has just ended: then both read the same."""
    data = random_message(name, random.Random(seed), depth=2, share=0.3).SerializeToString(deterministic=True)[:2000]
    for end in range(len(data)):
        check_same_judgement(name, data[:end])


@pytest.mark.slow
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**64))
@settings(max_examples=10_000)
def test_mutilated_data_is_judged_as_google_does(name: str, seed: int) -> None:
    """Whatever happens to the data, both reject it or both read the same."""
    source = random.Random(seed)
    data = bytearray(random_message(name, source, depth=2, share=0.3).SerializeToString(deterministic=True))
    for _ in range(source.randint(1, 3)):
        if data:
            data[source.randrange(len(data))] = source.randrange(256)
    check_same_judgement(name, bytes(data))


def check_same_judgement(name: str, data: bytes) -> None:
    """Both libraries reject the data, or both accept it and mean the same, as far as Python's types can say it."""
    try:
        theirs = google_class(name).FromString(data)
    except GoogleDecodeError:
        with pytest.raises(DecodeError):
            decode(our_class(name), data)
        return
    if fits_python(theirs):
        assert same_but_for_maps(encode(decode(our_class(name), data)), theirs)


def fits_python(message) -> bool:
    """Whether timedelta, datetime and the bare values of wrappers can say all that is in a message.

    Not compared either: a known field as an unknown one, which Google makes of a map entry that is odd inside.
    """
    name = message.DESCRIPTOR.full_name.removeprefix(WELL_KNOWN)
    unknown = {field.field_number for field in UnknownFieldSet(message)}
    if unknown and (name in WRAPPERS | TIMES or unknown & {field.number for field in message.DESCRIPTOR.fields}):
        return False
    if name == "Duration":
        return one_sign(message.seconds, message.nanos) and abs(message.seconds) < 10**12
    if name == "Timestamp":
        return one_sign(1, message.nanos) and -62_135_596_800 <= message.seconds < 253_402_300_800
    nested = (item for field, value in message.ListFields() for item in nested_messages(field, value))
    return all(map(fits_python, nested))


def one_sign(seconds: int, nanoseconds: int) -> bool:
    """Whether seconds and nanoseconds make up a valid Duration of whole microseconds."""
    return abs(nanoseconds) < 10**9 and nanoseconds % 1000 == 0 and seconds * nanoseconds >= 0


def nested_messages(field: FieldDescriptor, value) -> Iterator[GoogleMessage]:
    """The messages in the value of a field."""
    if is_map(field):
        yield from value.values() if field.message_type.fields_by_name["value"].message_type else ()
    elif field.message_type is not None:
        yield from value if field.is_repeated else (value,)


@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**64))
@settings(max_examples=settings.default.max_examples // 4)
def test_unknown_fields_are_kept(name: str, seed: int) -> None:
    """What a newer peer adds to a message is still there when the message is encoded again."""
    data = random_message(name, random.Random(seed)).SerializeToString(deterministic=True) + UNKNOWN
    assert same_but_for_maps(encode(decode(our_class(name), data)), google_class(name).FromString(data))


@given(name=st.sampled_from(NAMES), seeds=st.tuples(st.integers(0, 2**64), st.integers(0, 2**64)))
def test_two_messages_one_behind_the_other_are_their_sum(name: str, seeds: tuple[int, int]) -> None:
    """Messages in pieces are merged as Google does: later scalars win, lists grow, nested messages are merged."""
    pieces = [random_message(name, random.Random(seed)).SerializeToString(deterministic=True) for seed in seeds]
    check_same_judgement(name, b"".join(pieces))
