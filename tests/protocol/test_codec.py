"""The codec's rules one by one, and the scalar types that no message of a mesh has."""

from __future__ import annotations

import math
from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta

import betterproto2
import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import DecodeError, decode, encode, pack, unpack
from protocol.codec.any_message import message_class, type_url
from protocol.errors import LocalError, RemoteError
from protocol.proto.envoy.admin.v3 import ServerInfo, UpdateFailureState
from protocol.proto.envoy.config.cluster.v3 import Cluster, ClusterEdsClusterConfig
from protocol.proto.envoy.config.core.v3 import DataSource, HealthStatus, Locality, Metadata, Node
from protocol.proto.envoy.config.endpoint.v3 import LbEndpoint
from protocol.proto.envoy.config.route.v3 import RouteAction
from protocol.proto.google.protobuf import Struct, Value
from protocol.proto.stats import MetricConfig

INTEGERS = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "fixed32": (0, 2**32 - 1),
    "fixed64": (0, 2**64 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
}
FLOATS = {"float": 32, "double": 64}


# --- what is kept -----------------------------------------------------------------------------------------------------
def test_a_zero_duration_is_sent() -> None:
    """A timeout of 0 s means none; left out, Envoy would take its default of 15 s."""
    data = encode(RouteAction(cluster="x", timeout=timedelta(0)))
    assert decode(RouteAction, data).timeout == timedelta(0)
    assert decode(RouteAction, encode(RouteAction(cluster="x"))).timeout is None


def test_empty_messages_are_sent() -> None:
    """A message that is there and empty is not the same as none."""
    data = encode(Cluster(eds_cluster_config=ClusterEdsClusterConfig()))
    assert data == b"\x1a\x00"
    assert decode(Cluster, data).eds_cluster_config == ClusterEdsClusterConfig()


def test_zeros_with_presence_are_sent() -> None:
    """Zero, False and the empty string of a wrapper or a oneof are values."""
    endpoint = LbEndpoint(load_balancing_weight=0, endpoint_name="")
    assert decode(LbEndpoint, encode(endpoint)) == endpoint
    assert decode(Value, encode(Value(number_value=0.0))).number_value == 0.0
    assert decode(Value, encode(Value(bool_value=False))).bool_value is False


@pytest.mark.parametrize("microseconds", [-1, -500_000, -1_500_000, 1, 10**15])
def test_durations_keep_their_sign_and_microseconds(microseconds: int) -> None:
    """A Duration's seconds and nanoseconds both have the sign of the whole."""
    timeout = timedelta(microseconds=microseconds)
    assert decode(RouteAction, encode(RouteAction(timeout=timeout))).timeout == timeout


def test_nanoseconds_are_cut_off() -> None:
    """Python has microseconds: 1,999 ns are one."""
    assert decode(RouteAction, b"\x42\x03\x10\xcf\x0f").timeout == timedelta(microseconds=1)


@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)])
def test_timestamps_before_1970_count_forward(moment: datetime) -> None:
    """A Timestamp's nanoseconds are never negative."""
    state = UpdateFailureState(last_update_attempt=moment)
    assert decode(UpdateFailureState, encode(state)) == state


def test_unknown_enumeration_numbers_are_kept() -> None:
    """A number that a newer peer knows survives, without a name."""
    endpoint = decode(LbEndpoint, b"\x10\x63")
    assert endpoint.health_status == 0x63
    assert isinstance(endpoint.health_status, HealthStatus)
    assert encode(endpoint) == b"\x10\x63"


@pytest.mark.parametrize(
    "unknown", [b"\xca\x3e\x01x", b"\xc8\x3e\x05", b"\xcd\x3e1234", b"\xc9\x3e12345678", b"\xcb\x3e\x08\x01\xcc\x3e"]
)
def test_unknown_fields_are_kept(unknown: bytes) -> None:
    """Fields of every wire type, old groups too, come out again behind the known ones."""
    assert encode(decode(Locality, unknown + b"\x0a\x01r")) == b"\x0a\x01r" + unknown


def test_a_known_number_of_another_wire_type_is_unknown() -> None:
    """A string field that comes as a number is kept as it is, not read."""
    locality = decode(Locality, b"\x08\x05")
    assert locality.region == ""
    assert encode(locality) == b"\x08\x05"


# --- what is one message ----------------------------------------------------------------------------------------------
@given(st.dictionaries(st.text(), st.text()))
def test_equal_maps_have_equal_bytes(labels: dict[str, str]) -> None:
    """The order in which a dict was filled does not show: versions are digests of bytes."""
    reordered = dict(reversed(labels.items()))
    assert encode(MetricConfig(dimensions=labels)) == encode(MetricConfig(dimensions=reordered))
    assert decode(MetricConfig, encode(MetricConfig(dimensions=labels))).dimensions == labels


def test_map_entries_may_leave_out_or_turn_round_what_is_in_them() -> None:
    """A missing key or value is zero, even a message; their order does not matter."""
    assert decode(MetricConfig, b"\x0a\x00").dimensions == {"": ""}
    assert decode(MetricConfig, b"\x0a\x06\x12\x01v\x0a\x01k").dimensions == {"k": "v"}
    assert decode(Metadata, b"\x0a\x03\x0a\x01k").filter_metadata == {"k": Struct()}


def test_the_last_member_of_a_oneof_wins() -> None:
    """However often a peer changes its mind, one member is set."""
    filename, text = b"\x0a\x01f", b"\x1a\x01t"
    assert decode(DataSource, filename + text) == DataSource(inline_string="t")
    assert decode(DataSource, text + filename + text + filename) == DataSource(filename="f")


def test_a_message_that_comes_in_pieces_is_their_sum() -> None:
    """Nested messages are merged, even wrappers; of a scalar the last value counts."""
    region, zone = b"\x0a\x01r", b"\x12\x01z"
    pieces = b"".join(b"\x22" + bytes((len(body),)) + body for body in (region, zone))
    assert decode(Node, pieces).locality == Locality(region="r", zone="z")
    assert decode(LbEndpoint, b"\x22\x02\x08\x05\x22\x00").load_balancing_weight == 5
    assert decode(RouteAction, b"\x42\x02\x08\x05\x42\x03\x10\xe8\x07").timeout == timedelta(seconds=5, microseconds=1)


def test_unknown_fields_of_many_pieces_are_kept_in_order() -> None:
    """A message in many pieces, each with something unknown, costs what its bytes cost, and keeps all of it."""
    piece = b"\x22\x03\xc8\x3e\x01"
    assert encode(decode(Node, piece * 3)) == b"\x22\x09" + b"\xc8\x3e\x01" * 3


def test_lists_of_numbers_come_packed_or_one_by_one() -> None:
    """Both are the same list, and it is written packed."""
    for data in (b"\x08\x01\x08\x02", b"\x0a\x02\x01\x02", b"\x0a\x01\x01\x08\x02"):
        assert decode(EVERY["repeated"][0], data).bool == [True, True]


def test_a_decoded_message_shares_nothing() -> None:
    """Lists and dicts of two decoded messages are their own."""
    one, other = decode(Node, b""), decode(Node, b"")
    one.client_features.append("x")
    one.dynamic_parameters["x"] = None  # type: ignore[assignment]
    assert other.client_features == []
    assert other.dynamic_parameters == {}


# --- what is rejected -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
        b"\x0a\x01\xff",
        b"\x22\x05\x0a\x01a",
        b"\x22\x02\x0a\x05abcdef",
        b"\x80",
        b"\x00\x00",
        b"\x0f",
        b"\xcc\x3e",
        b"\xcb\x3e\x08\x01\xd4\x3e",
        b"\xcb\x3e\x08\x01",
        b"\xc8\x3e" + b"\xff" * 11,
        b"\xff\xff\xff\xff\x7f\x01",
    ],
)
def test_malformed_data_is_the_peers_fault(data: bytes) -> None:
    """Too short, too long, not UTF-8, field 0, wire type 7, groups without end: INVALID_ARGUMENT, nothing else."""
    with pytest.raises(DecodeError) as caught:
        decode(Node, data)
    assert isinstance(caught.value, RemoteError)
    assert caught.value.code == 3
    assert caught.value.message.startswith("malformed Node: ")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a", "it ends too soon"),
        (b"\x0a\x05abc", "a field is longer than its message"),
        (b"\x0a\x01\xff", "text that is not UTF-8"),
        (b"\x0f", "wire type 7"),
    ],
)
def test_the_error_says_why_and_repeats_no_data(data: bytes, reason: str) -> None:
    """Whoever reads the log learns what was wrong with the message."""
    with pytest.raises(DecodeError, match=f"malformed Node: {reason}$"):
        decode(Node, data)


def test_a_time_beyond_all_calendars_is_rejected() -> None:
    """A Duration that timedelta cannot hold is the peer's fault too."""
    with pytest.raises(DecodeError, match="a time beyond all calendars"):
        decode(RouteAction, b"\x42\x0a\x08" + b"\xff" * 8 + b"\x7f")


def test_nesting_without_end_is_rejected() -> None:
    """A peer cannot exhaust the stack."""
    data = b""
    for _ in range(2000):
        data = (
            b"\x32"
            + encode_length(len(data) + 1 + len(encode_length(len(data))))
            + b"\x0a"
            + encode_length(len(data))
            + data
        )
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(Value, data)


def encode_length(length: int) -> bytes:
    """A varint, by the library's own hand."""
    return betterproto2.encode_varint(length)


@pytest.mark.parametrize("weight", [-1, 2**32])
def test_numbers_out_of_range_are_our_own_fault(weight: int) -> None:
    """What cannot be said is never sent as something else."""
    with pytest.raises(LocalError, match="out of range for 32 bits"):
        encode(LbEndpoint(load_balancing_weight=weight))


# --- Any --------------------------------------------------------------------------------------------------------------
def test_any_carries_a_message_under_its_type_url() -> None:
    """Packing and unpacking are inverse; another type than the expected one is the peer's fault."""
    packed = pack(Locality(region="r"))
    assert packed.type_url == "type.googleapis.com/envoy.config.core.v3.Locality"
    assert unpack(packed, Locality) == Locality(region="r")
    with pytest.raises(DecodeError, match=r"Locality where .*Node was expected"):
        unpack(packed, Node)


def test_a_class_is_found_by_its_type_url() -> None:
    """The package is imported if need be; what was not generated is a LookupError, whatever it looks like."""
    assert message_class(type_url(ServerInfo)) is ServerInfo
    assert message_class("type.googleapis.com/istio.networking.nds.v1.NameTable").__name__ == "NameTable"
    assert (
        message_class("type.googleapis.com/istio.networking.nds.v1.NameTable.NameInfo").__name__ == "NameTableNameInfo"
    )
    for url in (
        "",
        "type.googleapis.com/",
        "type.googleapis.com/no.such.Message",
        "x/../os.path",
        "type.googleapis.com/..a.B",
    ):
        with pytest.raises(LookupError):
            message_class(url)


# --- every scalar type ------------------------------------------------------------------------------------------------
def every_type(label: str) -> tuple[type[betterproto2.Message], type]:
    """Our class and Google's of a message with a field of each scalar type, from number 1 on, singular or repeated."""
    names = ["bool", *INTEGERS, *FLOATS]
    hints = {"bool": bool, **dict.fromkeys(INTEGERS, int), **dict.fromkeys(FLOATS, float)}
    repeated = label == "repeated"
    fields = [
        (name, list[hints[name]] if repeated else hints[name], betterproto2.field(number, name, repeated=repeated))
        for number, name in enumerate(names, start=1)
    ]
    ours = make_dataclass("Every", fields, bases=(betterproto2.Message,), eq=False, repr=False)
    file = descriptor_pb2.FileDescriptorProto(name="every.proto", package="every", syntax="proto3")
    message = file.message_type.add(name="Every")
    for number, name in enumerate(names, start=1):
        kind = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
        message.field.add(name=name, number=number, type=kind, label=3 if repeated else 1)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return ours, message_factory.GetMessageClass(pool.FindMessageTypeByName("every.Every"))


def values_of(name: str) -> st.SearchStrategy[object]:
    """Values of a scalar type."""
    if name in INTEGERS:
        return st.integers(*INTEGERS[name])
    return st.booleans() if name == "bool" else st.floats(width=FLOATS[name], allow_nan=False)


EVERY = {label: every_type(label) for label in ("singular", "repeated")}
SINGULAR = st.fixed_dictionaries({name: values_of(name) for name in ("bool", *INTEGERS, *FLOATS)})
REPEATED = st.fixed_dictionaries({name: st.lists(values_of(name), max_size=3) for name in ("bool", *INTEGERS, *FLOATS)})


@given(st.one_of(st.tuples(st.just("singular"), SINGULAR), st.tuples(st.just("repeated"), REPEATED)))
def test_every_scalar_type_has_googles_bytes(sample: tuple[str, dict[str, object]]) -> None:
    """All values of all types of numbers, alone and packed; -0.0 is not zero."""
    label, values = sample
    ours, theirs = EVERY[label]
    data = theirs(**values).SerializeToString(deterministic=True)
    assert encode(ours(**values)) == data
    read = decode(ours, data)
    assert {name: getattr(read, name) for name in values} == values
    assert encode(read) == data


def test_not_a_number_is_a_number() -> None:
    """NaN is sent and read."""
    assert math.isnan(decode(Value, encode(Value(number_value=math.nan))).number_value or 0)
