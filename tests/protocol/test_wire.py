"""Fields written by hand, and responses spliced from shared bodies."""

from __future__ import annotations

import gc

import betterproto2
import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from protocol import wire
from protocol.codec import decode, encode
from protocol.errors import LocalError
from protocol.proto.envoy.service.discovery.v3 import DeltaDiscoveryResponse, DiscoveryResponse
from protocol.proto.envoy.service.discovery.v3 import Resource as DeltaResource
from protocol.proto.google.protobuf import Any as PackedMessage
from protocol.wire_reading import read_varint
from protocol.xds.resources import Chunk, Part, Resource, build_resource, tie_chunks

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
BODIES = st.one_of(st.binary(max_size=300), st.integers(0, 100_000).map(bytes))
CHUNKS = st.lists(st.builds(Chunk, BODIES), min_size=1, max_size=4).map(tuple)
RESOURCES = st.lists(st.builds(tie_chunks, st.text(max_size=200), CHUNKS), max_size=5, unique_by=lambda r: r.name)


# --- fields -----------------------------------------------------------------------------------------------------------
@given(st.integers(0, 2**64 - 1))
def test_varints_are_read_as_written(number: int) -> None:
    """All numbers of 64 bits, written as the library does, read back whole."""
    data = wire.varint(number)
    assert data == betterproto2.encode_varint(number)
    assert read_varint(b"?" + data + b"?", 1) == (number, 1 + len(data))


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_varint_beyond_64_bits_is_our_own_fault(number: int) -> None:
    """There is no silent wrapping round."""
    with pytest.raises(LocalError):
        wire.varint(number)


# --- responses --------------------------------------------------------------------------------------------------------
def sotw(resources: list[Resource], **header: str) -> tuple[bytes, ...]:
    """A response spliced from single resources."""
    fields = [buffer for resource in resources for buffer in wire.sotw_resource_field(CLUSTER, resource)]
    return wire.sotw_response(type_url=CLUSTER, fields=fields, **header)


def delta(resources: list[Resource], removed: list[str], **header: str) -> tuple[bytes, ...]:
    """A delta response spliced from single resources."""
    fields = [buffer for resource in resources for buffer in wire.delta_resource_field(CLUSTER, resource)]
    return wire.delta_response(type_url=CLUSTER, fields=fields, removed=removed, **header)


@given(RESOURCES, st.text(), st.text())
def test_a_spliced_response_is_what_both_libraries_write(resources: list[Resource], version: str, nonce: str) -> None:
    """Joined, the buffers are a DiscoveryResponse byte for byte."""
    ours = DiscoveryResponse(
        version_info=version,
        nonce=nonce,
        type_url=CLUSTER,
        resources=[PackedMessage(type_url=CLUSTER, value=resource.body) for resource in resources],
    )
    joined = b"".join(sotw(resources, version=version, nonce=nonce))
    assert joined == encode(ours) == bytes(ours)
    assert joined == discovery_pb2.DiscoveryResponse.FromString(joined).SerializeToString(deterministic=True)


@given(RESOURCES, st.lists(st.text()), st.text(), st.text())
def test_a_spliced_delta_response_is_what_google_writes(
    resources: list[Resource], removed: list[str], version: str, nonce: str
) -> None:
    """Joined, the buffers are a DeltaDiscoveryResponse byte for byte, fields by number."""
    ours = DeltaDiscoveryResponse(
        system_version_info=version,
        nonce=nonce,
        type_url=CLUSTER,
        resources=[
            DeltaResource(
                name=resource.name,
                version=resource.version,
                resource=PackedMessage(type_url=CLUSTER, value=resource.body),
            )
            for resource in resources
        ],
        removed_resources=removed,
    )
    joined = b"".join(delta(resources, removed, version=version, nonce=nonce))
    assert joined == encode(ours)
    assert joined == discovery_pb2.DeltaDiscoveryResponse.FromString(joined).SerializeToString(deterministic=True)
    assert decode(DeltaDiscoveryResponse, joined) == ours


def test_bodies_are_shared_not_copied() -> None:
    """The buffers of a resource's body are those very objects, in both dialects."""
    resource = tie_chunks("a", (Chunk(b"x" * 100), Chunk(b"y" * 100)))
    for buffers in (sotw([resource], version="1", nonce="1"), delta([resource], [], version="1", nonce="1")):
        assert all(any(buffer is chunk.body for buffer in buffers) for chunk in resource.chunks)


# --- blocks -----------------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(0, 3 * wire.COPIED_SIZE).map(bytes), max_size=40))
def test_blocks_are_the_same_bytes_in_fewer_buffers(buffers: list[bytes]) -> None:
    """Nothing is lost or moved; no block grows beyond its size; large buffers are passed on uncopied."""
    blocks = list(wire.pack_blocks(buffers))
    assert b"".join(blocks) == b"".join(buffers)
    large = [buffer for buffer in buffers if len(buffer) > wire.COPIED_SIZE]
    assert all(len(block) <= wire.BLOCK_SIZE or any(block is buffer for buffer in large) for block in blocks)
    assert all(any(block is buffer for block in blocks) for buffer in large)


def test_a_part_may_be_encoded_ahead_in_steps() -> None:
    """Each step makes one block; what is asked for then is ready, and the same as if nobody had."""
    part = Part(build_resource(f"cluster-{number}", bytes(500)) for number in range(2000))
    ahead, shared = (wire.SharedFields(CLUSTER, wire.delta_resource_field) for _ in range(2))
    steps = sum(1 for _ in ahead.prepare(part))
    assert steps == len(ahead.of(part)) > 10
    assert ahead.of(part) == shared.of(part)
    assert not list(ahead.prepare(part))


def test_some_of_a_part_may_be_encoded_ahead_in_steps() -> None:
    """One by one what is named; as a whole if everything is."""
    part = Part(build_resource(f"cluster-{number}", bytes(50)) for number in range(1000))
    fields = wire.SharedFields(CLUSTER, wire.delta_resource_field)
    named = frozenset(list(part.names)[:-1])
    assert len(list(fields.prepare_named(part, named | {"another"}))) == 999 // wire.SINGLE_STEP
    assert len(fields) == 0
    list(fields.prepare_named(part, part.names | {"another"}))
    assert len(fields) == 1


def test_a_part_is_encoded_once_for_all_streams() -> None:
    """2,000 small resources are a few blocks, the same objects for every caller, until the part is forgotten."""
    part = Part(build_resource(f"cluster-{number}", bytes(500)) for number in range(2000))
    shared = wire.SharedFields(CLUSTER, wire.sotw_resource_field)
    blocks = shared.of(part)
    assert len(blocks) < 20
    assert shared.of(part) is blocks
    assert b"".join(blocks) == b"".join(b"".join(wire.sotw_resource_field(CLUSTER, r)) for r in part.resources.values())
    del part
    gc.collect()
    assert len(shared) == 0
