"""The messages of the CSR service on the wire, held against Google's library."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

from protocol.csr import MOST, CertificateRequest, decode_request, encode_response
from protocol.errors import RemoteError

_FIELD = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(name="google", scope="module")
def google_fixture():
    """Google's classes of both messages, from the field numbers of platform.md §1.2."""
    file = descriptor_pb2.FileDescriptorProto(
        name="ca.proto", package="test.ca", syntax="proto3", dependency=[struct_pb2.DESCRIPTOR.name]
    )
    request = file.message_type.add(name="Request")
    request.field.add(name="csr", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    request.field.add(name="validity_duration", number=3, type=_FIELD.TYPE_INT64, label=_FIELD.LABEL_OPTIONAL)
    request.field.add(
        name="metadata",
        number=4,
        type=_FIELD.TYPE_MESSAGE,
        type_name=".google.protobuf.Struct",
        label=_FIELD.LABEL_OPTIONAL,
    )
    response = file.message_type.add(name="Response")
    response.field.add(name="cert_chain", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.ca.{name}"))
        for name in ("Request", "Response")
    }


def test_a_request_is_read(google):
    """The CSR, the seconds, and the two entries of the metadata that mean something."""
    request = google["Request"](csr="pem", validity_duration=3600)
    request.metadata.update({"CertSigner": "s", "ImpersonatedIdentity": "spiffe://a", "other": [1, {"a": None}]})
    assert decode_request(request.SerializeToString()) == CertificateRequest(
        csr=b"pem", lifetime=3600, impersonated="spiffe://a", signer="s"
    )


def test_what_is_not_there_is_empty(google):
    """A bare request asks for the default; negative seconds travel as they are; entries of another kind say nothing."""
    assert decode_request(b"") == CertificateRequest(csr=b"")
    request = google["Request"](validity_duration=-1)
    request.metadata.update({"ImpersonatedIdentity": 7})
    assert decode_request(request.SerializeToString()) == CertificateRequest(csr=b"", lifetime=-1)


def test_an_answer_is_read_by_google(google):
    """Each element stays an element, in its order."""
    assert list(google["Response"].FromString(encode_response(("leaf", "one", "roots"))).cert_chain) == [
        "leaf",
        "one",
        "roots",
    ]


@pytest.mark.parametrize(("data", "code"), [(b"\x0a\x05ab", 3), (b"\x0a\x01\xff", 3), (bytes(MOST + 1), 8)])
def test_what_is_malformed_or_too_large_is_refused(data, code):
    """Cut short, no UTF-8, more than anybody needs: with the right status each."""
    with pytest.raises(RemoteError) as caught:
        decode_request(data)
    assert caught.value.code == code
