"""Discovery requests: our reading and writing beside Google's."""

from __future__ import annotations

import time

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import DecodeError, decode, encode
from protocol.errors import RemoteError
from protocol.proto.envoy.config.core.v3 import Locality, Node
from protocol.proto.trierarch.xds import DeltaFields
from protocol.xds.requests import DeltaRequest, Nack, SotwRequest
from protocol.xds.wire_requests import (
    MOST_NAMES,
    MOST_REASON,
    MOST_TEXT,
    RESOURCE_EXHAUSTED,
    cut_known,
    decode_delta_request,
    decode_sotw_request,
    encode_delta_request,
    encode_sotw_request,
)

CLUSTERS = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
NODE = Node(id="sidecar~10.0.0.1~a.b~c", locality=Locality(region="r"))
NAMES = st.lists(st.text()).map(tuple)
NACKS = st.one_of(st.none(), st.builds(Nack, code=st.integers(-(2**31), 2**31 - 1), message=st.text()))
NODES = st.sampled_from([b"", encode(NODE)])
SOTW = st.builds(
    SotwRequest, type_url=st.text(), names=NAMES, nonce=st.text(), version=st.text(), nack=NACKS, node=NODES
)
DELTA = st.builds(
    DeltaRequest,
    type_url=st.text(),
    subscribe=NAMES,
    unsubscribe=NAMES,
    initial=st.dictionaries(st.text(), st.text()),
    nonce=st.text(),
    nack=NACKS,
    node=NODES,
)


@given(SOTW)
def test_requests_are_googles(request: SotwRequest) -> None:
    """Google reads what we write, field by field, and we read what Google writes."""
    theirs = discovery_pb2.DiscoveryRequest.FromString(encode_sotw_request(request))
    assert (theirs.type_url, theirs.response_nonce, theirs.version_info) == (
        request.type_url,
        request.nonce,
        request.version,
    )
    assert tuple(theirs.resource_names) == request.names
    assert theirs.HasField("node") == bool(request.node)
    assert read_nack(theirs) == request.nack
    assert encode_sotw_request(request) == theirs.SerializeToString(deterministic=True)
    assert decode_sotw_request(theirs.SerializeToString()) == request


@given(DELTA)
def test_delta_requests_are_googles(request: DeltaRequest) -> None:
    """Google reads what we write, field by field, and we read what Google writes."""
    theirs = discovery_pb2.DeltaDiscoveryRequest.FromString(encode_delta_request(request))
    assert (theirs.type_url, theirs.response_nonce) == (request.type_url, request.nonce)
    assert tuple(theirs.resource_names_subscribe) == request.subscribe
    assert tuple(theirs.resource_names_unsubscribe) == request.unsubscribe
    assert dict(theirs.initial_resource_versions) == request.initial
    assert theirs.HasField("node") == bool(request.node)
    assert read_nack(theirs) == request.nack
    assert decode_delta_request(theirs.SerializeToString()) == request


@given(st.sampled_from([CLUSTERS, "other"]), st.text(max_size=9), st.integers(0, 99), st.integers(0, 0xFF))
def test_whatever_looks_like_an_ack_is_read_by_the_rules(type_url: str, nonce: str, place: int, byte: int) -> None:
    """An ACK of a type that was met needs no decoder. With any byte changed it is read as the decoder reads it."""
    decode_delta_request(encode_delta_request(DeltaRequest(type_url=CLUSTERS, initial={})))
    data = bytearray(encode_delta_request(DeltaRequest(type_url=type_url, initial={}, nonce=nonce)))
    for changed in (bytes(data), bytes(data[:place]), bytes((*data[:place], byte, *data[place + 1 :]))):
        try:
            expected = decode(DeltaFields, changed)
        except DecodeError:
            with pytest.raises(DecodeError):
                decode_delta_request(changed)
        else:
            found = decode_delta_request(changed)
            assert (found.type_url, found.nonce) == (expected.type_url, expected.response_nonce)
            names = (expected.resource_names_subscribe, expected.resource_names_unsubscribe)
            assert (found.subscribe, found.unsubscribe) == tuple(map(tuple, names))


def read_nack(message) -> Nack | None:
    """The error_detail of Google's message."""
    detail = message.error_detail
    return Nack(code=detail.code, message=detail.message) if message.HasField("error_detail") else None


@given(SOTW, st.data())
def test_a_request_that_is_cut_short_is_rejected(request: SotwRequest, data: st.DataObject) -> None:
    """Cut within a field, the request is the peer's fault; cut between two, it is another request."""
    whole = encode_sotw_request(request)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        shorter = decode_sotw_request(cut)
    except DecodeError:
        return
    assert encode_sotw_request(shorter) == cut


@pytest.mark.parametrize("decoder", [decode_sotw_request, decode_delta_request])
def test_garbage_is_the_peers_fault(decoder) -> None:
    """All decoders raise the one error."""
    with pytest.raises(DecodeError):
        decoder(b"\x0a\x05abc")


def test_names_are_one_object_in_the_whole_process() -> None:
    """Two requests that name the same resource hold the same string."""
    data = encode_sotw_request(SotwRequest(type_url="type of this test", names=("name of this test",)))
    one, other = decode_sotw_request(data), decode_sotw_request(data)
    assert one.names[0] is other.names[0]
    assert one.type_url is other.type_url
    delta = DeltaRequest(type_url="type of this test", initial={"name of this test": "1"})
    assert next(iter(decode_delta_request(encode_delta_request(delta)).initial)) is one.names[0]


@pytest.mark.parametrize("many", [100, 25_000])
def test_names_that_are_known_can_be_cut_out_before(many: int) -> None:
    """A request is the same whether they are or not; and none are, if to look for them took long."""
    names = tuple(f"outbound|80||service-{number}.shop.svc.cluster.local" for number in range(many))
    delta = encode_delta_request(DeltaRequest(type_url="t", subscribe=names, initial={}, nonce="7"))
    sotw = encode_sotw_request(SotwRequest(type_url="t", names=names, nonce="7"))
    for decoder, data in ((decode_delta_request, delta), (decode_sotw_request, sotw)):
        whole = decoder(data)
        rest, known = cut_known(data)
        assert known == (() if many == 25_000 else names[:-1])  # what is behind the last one has another tag
        assert decoder(rest, known) == whole


def test_a_node_is_decoded_only_when_asked_for() -> None:
    """The request holds the Node's bytes as they came, joined if it came in pieces; even a malformed one."""
    data = encode(NODE)
    request = decode_sotw_request(encode_sotw_request(SotwRequest(type_url="", node=data)))
    assert request.node == data
    assert decode_sotw_request(b"\x12\x01\x0a\x12\x02\x01i").node == b"\x0a\x01i"
    assert decode_sotw_request(b"\x12\x01\xff").node == b"\xff"


def test_an_empty_error_detail_is_a_nack() -> None:
    """What counts is that it is there."""
    assert decode_sotw_request(b"\x32\x00").nack == Nack(code=0, message="")


def test_of_texts_that_are_kept_only_the_beginning_is_read() -> None:
    """A client could have megabytes remembered with each type, response and record. Whatever is longer is not ours."""
    long = "a: " * 100_000
    text, reason = long[:MOST_TEXT], long[:MOST_REASON]
    sotw = SotwRequest(type_url=long, nonce=long, version=long, nack=Nack(code=1, message=long))
    short = SotwRequest(type_url=text, nonce=text, version=text, nack=Nack(code=1, message=reason))
    assert decode_sotw_request(encode_sotw_request(sotw)) == short
    delta = DeltaRequest(type_url=long, nonce=long, initial={"a": long}, nack=Nack(code=1, message=long))
    brief = DeltaRequest(type_url=text, nonce=text, initial={"a": text}, nack=Nack(code=1, message=reason))
    assert decode_delta_request(encode_delta_request(delta)) == brief


def test_a_request_for_more_than_anybody_needs_is_refused() -> None:
    """One name too many is RESOURCE_EXHAUSTED, in either protocol; as many as allowed are read."""
    names = tuple(f"n{number}" for number in range(MOST_NAMES))
    assert len(decode_sotw_request(encode_sotw_request(SotwRequest(type_url="t", names=names))).names) == MOST_NAMES
    sotw = encode_sotw_request(SotwRequest(type_url="t", names=(*names, "one more")))
    delta = encode_delta_request(
        DeltaRequest(type_url="t", subscribe=names[:20_000], unsubscribe=names[20_000:], initial={"one more": "1"})
    )
    for decoder, data in ((decode_sotw_request, sotw), (decode_delta_request, delta)):
        with pytest.raises(RemoteError) as refused:
            decoder(data)
        assert refused.value.code == RESOURCE_EXHAUSTED


@pytest.mark.parametrize("name", [b"\x1a\x00", b"\x22\x00", b"\x2a\x00"])
def test_millions_of_names_are_refused_without_being_decoded(name: bytes) -> None:
    """4 MiB of empty names would take a second to decode: they are told from their bytes in milliseconds."""
    began = time.process_time()
    with pytest.raises(RemoteError):
        decode_delta_request(name * 2**21)
    assert time.process_time() - began < 0.1
