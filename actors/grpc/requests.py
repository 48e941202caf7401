"""The first headers of a call: what they ask for, or why they are refused. Pure.

The checks and answers are grpclib's own (`grpclib.server.request_handler`), in its order, so that a client cannot tell
the difference; but nothing here can raise, where grpclib would meet a KeyError or a ValueError.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from grpclib.const import Status
from grpclib.encoding.base import GRPC_CONTENT_TYPE
from grpclib.metadata import decode_timeout

Headers = list[tuple[str, str]]

CONTENT_TYPE = GRPC_CONTENT_TYPE + "+proto"

_TIMEOUT = re.compile(r"[0-9]{1,8}[HMSmun]")
_NOT_METADATA = frozenset({"te", "content-type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of a method that we have."""

    method: str
    timeout: float | None
    """Seconds that the caller will wait; None: for ever."""
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A call that no handler will see, with its answer."""

    http_status: int
    grpc_status: Status | None = None
    message: str = ""

    def headers(self) -> Headers:
        """The only headers of the answer."""
        headers = [(":status", str(self.http_status))]
        if self.grpc_status is not None:
            headers += [("grpc-status", str(self.grpc_status.value)), ("grpc-message", self.message)]
        return headers


def read_request(headers: Headers, methods: Container[str]) -> Request | Refusal:
    """Decide about a call. Of a header given twice the last counts, except in the metadata."""
    fields = dict(headers)
    return _refuse(fields, methods) or Request(
        method=fields[":path"],
        timeout=decode_timeout(fields["grpc-timeout"]) if "grpc-timeout" in fields else None,
        metadata=read_metadata(headers),
    )


def read_metadata(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What the caller says beyond the protocol's own headers. Repeated names are joined by commas, as gRPC says."""
    metadata: dict[str, str] = {}
    for name, value in headers:
        if name.startswith((":", "grpc-")) or name in _NOT_METADATA:
            continue
        metadata[name] = f"{metadata[name]},{value}" if name in metadata else value
    return metadata


def _refuse(fields: Mapping[str, str], methods: Container[str]) -> Refusal | None:
    return _refuse_http(fields) or _refuse_grpc(fields, methods)


def _refuse_http(fields: Mapping[str, str]) -> Refusal | None:
    """Refuse what is not gRPC at all."""
    if fields.get(":method") != "POST":
        return Refusal(http_status=405)
    content_type = fields.get("content-type")
    if content_type is None:
        return Refusal(http_status=415, grpc_status=Status.UNKNOWN, message="Missing content-type header")
    if content_type not in (GRPC_CONTENT_TYPE, CONTENT_TYPE):
        return Refusal(http_status=415, grpc_status=Status.UNKNOWN, message="Unacceptable content-type header")
    if fields.get("te") != "trailers":
        return Refusal(http_status=400, grpc_status=Status.UNKNOWN, message='Required "te: trailers" header is missing')
    return None


def _refuse_grpc(fields: Mapping[str, str], methods: Container[str]) -> Refusal | None:
    """Refuse calls of methods that we do not have, or of no method, or with a senseless timeout."""
    if ":path" not in fields:
        return Refusal(http_status=400, grpc_status=Status.UNKNOWN, message="Missing :path header")
    if fields[":path"] not in methods:
        return Refusal(http_status=200, grpc_status=Status.UNIMPLEMENTED, message="Method not found")
    if not _TIMEOUT.fullmatch(fields.get("grpc-timeout", "1S")):
        return Refusal(http_status=200, grpc_status=Status.UNKNOWN, message="Invalid grpc-timeout header")
    return None
