"""The first headers of a call."""

import pytest

from actors.grpc.requests import Refusal, Request, read_metadata, read_request

GOOD = {":method": "POST", ":path": "/s/m", "content-type": "application/grpc", "te": "trailers"}


def read(**changes):
    """Read good headers with changes: `_` stands for `:` and `-`, None deletes."""
    fields = {**GOOD, **{name.replace("__", ":").replace("_", "-"): value for name, value in changes.items()}}
    return read_request([(name, value) for name, value in fields.items() if value is not None], {"/s/m"})


@pytest.mark.parametrize(
    ("changes", "http_status", "grpc_status"),
    [
        ({"__method": "GET"}, 405, None),
        ({"__method": None}, 405, None),
        ({"content_type": None}, 415, 2),
        ({"content_type": "application/json"}, 415, 2),
        ({"content_type": "application/grpc+json"}, 415, 2),
        ({"te": None}, 400, 2),
        ({"te": "gzip"}, 400, 2),
        ({"__path": None}, 400, 2),
        ({"__path": "/s/other"}, 200, 12),
        ({"grpc_timeout": "abc"}, 200, 2),
        ({"grpc_timeout": ""}, 200, 2),
        ({"grpc_timeout": "1"}, 200, 2),
        ({"grpc_timeout": "123456789S"}, 200, 2),
        ({"grpc_timeout": "٣S"}, 200, 2),
        ({"grpc_timeout": "1S\n"}, 200, 2),
    ],
)
def test_refused(changes, http_status, grpc_status):
    """Each kind of bad headers has the answer that grpclib's own server gives, and none raises."""
    refusal = read(**changes)
    assert isinstance(refusal, Refusal)
    headers = dict(refusal.headers())
    assert headers[":status"] == str(http_status)
    assert headers.get("grpc-status") == (None if grpc_status is None else str(grpc_status))


@pytest.mark.parametrize("content_type", ["application/grpc", "application/grpc+proto"])
def test_accepted(content_type):
    """Both names of the content type are good, and without a timeout the caller waits for ever."""
    assert read(content_type=content_type) == Request(method="/s/m", timeout=None, metadata={})


@pytest.mark.parametrize(("text", "seconds"), [("2H", 7200), ("3M", 180), ("4S", 4), ("5m", 0.005), ("6u", 6e-6)])
def test_timeout(text, seconds):
    """A timeout is a number of at most eight digits and a unit."""
    assert read(grpc_timeout=text).timeout == pytest.approx(seconds)


def test_metadata():
    """The protocol's own headers are left out, repeated names joined, binary values left as they travelled."""
    headers = [(":path", "/s/m"), ("te", "trailers"), ("grpc-timeout", "1S"), ("content-type", "application/grpc")]
    headers += [("authorization", "Bearer x"), ("a", "1"), ("a", "2"), ("trace-bin", "AAEC"), ("user-agent", "envoy")]
    assert read_metadata(headers) == {
        "authorization": "Bearer x",
        "a": "1,2",
        "trace-bin": "AAEC",
        "user-agent": "envoy",
    }
