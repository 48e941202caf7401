"""Writes `docs/limits.md` from the code: every bound that protects the process from its clients and its files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import supervisor
from actors import (
    ads_service,
    aside,
    authority_files,
    ca_service,
    client_requests,
    dns_source,
    folder_scan,
    grpc_server,
    http1,
    jwks_source,
    key_fetching,
    line_budget,
    push_scheduler,
    snapshot_builder,
)
from actors.grpc import meter
from actors.grpc.limits import Limits, Rate
from protocol import csr
from protocol.xds import bounds, names, repeated_names, session, wire_requests
from trierarch.config import key_sets, yaml_values
from trierarch.envoy import memo, node
from trierarch.identity import csr_request, forwarded, tokens
from trierarch.push import admission, node_metadata, open_pushes, proxy, request_authentication, targets, token_bucket
from trierarch.settings import Settings

TARGET = Path(__file__).parents[1] / "docs" / "limits.md"

LIMITS = Limits(
    max_message_size=Settings().max_receive_size,
    max_concurrent_streams=Settings().max_streams,
    keepalive_interval=Settings().keepalive_interval,
    keepalive_timeout=Settings().keepalive_timeout,
)
"""As the wiring makes them of the default settings."""


@dataclass(frozen=True, slots=True)
class Row:
    """One limit. `settable`: the environment variable, or "" for a value in the code."""

    what: str
    value: str
    beyond: str
    settable: str = ""


def size(number: float) -> str:
    """Bytes for people."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number / factor:,.0f} {unit}"
    return f"{number:,} B"


def seconds(number: float) -> str:
    """A time for people."""
    return f"{number:g} s" if number >= 1 else f"{number * 1000:g} ms"


def rate(value: Rate, unit: str = "") -> str:
    """A burst and what comes back."""
    if unit == "bytes":
        return f"{size(value.burst)}, then {size(value.per_second)}/s"
    return f"{value.burst:,.0f}, then {value.per_second:g}/s"


def price(kind: int) -> int:
    """Points that a kind of frame costs."""
    return meter.COSTS[kind][0]


CALM = "GOAWAY `ENHANCE_YOUR_CALM`"
CONNECTIONS = (
    Row(
        "connections of a port",
        f"{LIMITS.max_connections:,}, or its part of the process's descriptors (RLIMIT_NOFILE) beyond "
        f"{grpc_server.RESERVE:,}",
        "closed unheard",
    ),
    Row(
        "connections accepted", f"{LIMITS.accept_burst} each {seconds(LIMITS.accept_pause)}", "they wait in the kernel"
    ),
    Row("connections that wait there", f"{LIMITS.backlog:,}", "the kernel drops them; clients try again"),
    Row("connections of the server that have sent no SETTINGS", f"{LIMITS.max_newcomers:,}", "the oldest is closed"),
    Row("TCP to the first SETTINGS, TLS included", seconds(LIMITS.handshake_timeout), "closed"),
    Row("connection without a call", seconds(LIMITS.idle_timeout), "GOAWAY `NO_ERROR`, closed"),
    Row("connection that never had one", seconds(LIMITS.unused_timeout), "GOAWAY `NO_ERROR`, closed"),
    Row("silence before a PING", seconds(LIMITS.keepalive_interval), "PING", "GRPC_KEEPALIVE_INTERVAL"),
    Row("silence after it", seconds(LIMITS.keepalive_timeout), "aborted (RST)", "GRPC_KEEPALIVE_TIMEOUT"),
    Row("socket that takes no byte", seconds(LIMITS.stuck_timeout), "aborted (RST)"),
    Row("unsent bytes of a connection", size(LIMITS.max_unsent), "aborted (RST)"),
    Row(
        "lines about a host in the log: of connections ended for a fault, and of callers who prove nothing",
        f"{line_budget.LINES} of each a minute",
        "counted in the next line",
    ),
    Row("hosts that are told apart for that", f"{line_budget.MOST_HOSTS}", "they share the lines of one more"),
    Row("listening to a peer after GOAWAY for a fault", seconds(LIMITS.farewell), "closed"),
)
HTTP2 = (
    Row("frame", size(LIMITS.max_frame_size), "GOAWAY `FRAME_SIZE_ERROR`, at its header"),
    Row("headers of a call, on the wire and unfolded", size(LIMITS.max_header_list_size), CALM),
    Row(
        "calls of a connection",
        f"{LIMITS.max_concurrent_streams:,}",
        "`REFUSED_STREAM` for that call",
        "ISTIO_GPRC_MAXSTREAMS",
    ),
    Row("calls of the server", f"{LIMITS.max_calls:,}", "`REFUSED_STREAM` for that call"),
    Row("calls of a connection that are reset or refused, beside those that are open", rate(LIMITS.wasted_calls), CALM),
    Row("points for cheap frames of a connection", rate(LIMITS.cheap_frames), f"{CALM}, which names the frame"),
    Row(
        "what they cost",
        f"PING {price(6)}, SETTINGS {price(4)} and 1 for each setting, others {price(3)}",
        f"DATA counts if it has less than {meter.SMALL_DATA} B; "
        f"{size(LIMITS.data_per_point)} of DATA that we send earn a point",
    ),
    Row(
        f"bytes read of a connection; HEADERS and DATA count as {size(meter.LEAST_WORK)} at least",
        rate(LIMITS.work, "bytes"),
        "read later",
    ),
    Row(
        "frames processed before others have a turn",
        f"{LIMITS.frames_per_step}, or {LIMITS.frames_per_step // meter.CALL_STEP} calls",
        "the rest a turn later",
    ),
    Row("what arrives for a call before it is read", size(LIMITS.stream_window), "GOAWAY `FLOW_CONTROL_ERROR`"),
    Row("the same for all calls of a connection", size(LIMITS.connection_window), "GOAWAY `FLOW_CONTROL_ERROR`"),
)
GRPC = (
    Row("message", size(LIMITS.max_message_size), "`RESOURCE_EXHAUSTED`, at its prefix", "ISTIO_GPRC_MAXRECVMSGSIZE"),
    Row(
        f"messages over {size(LIMITS.large_message_size)} that arrive, in all",
        size(LIMITS.large_messages),
        "`RESOURCE_EXHAUSTED` for the one more",
    ),
    Row("the same on one connection", size(2 * LIMITS.max_message_size), "`RESOURCE_EXHAUSTED` for the one more"),
    Row(
        "a message that was begun, to us",
        f"{seconds(LIMITS.message_timeout)}, and 1 s for each {size(LIMITS.slowest)}",
        "`DEADLINE_EXCEEDED`",
    ),
    Row(
        "a message that was begun, from us",
        f"{seconds(LIMITS.message_timeout)}, and 1 s for each {size(LIMITS.slowest)}",
        "`UNAVAILABLE`, or RST_STREAM within the message",
    ),
    Row("bytes of DATA sent before others have a turn", size(LIMITS.batch_size), "the rest a turn later"),
    Row("the same with TLS", size(LIMITS.encrypted_batch_size), "the rest a turn later"),
    Row("unsent bytes that make a connection full", size(LIMITS.high_water), "its senders wait"),
    Row("unsent bytes with which they go on", size(LIMITS.low_water), "they wait on"),
)
XDS = (
    Row(
        "streams that begin",
        "min(15 + 5 x cores, 100)/s",
        f"they wait for {seconds(ads_service.PATIENCE)}, then `RESOURCE_EXHAUSTED`",
        "PILOT_MAX_REQUESTS_PER_SECOND",
    ),
    Row(
        "of these by one host while others ask too",
        f"its share, 1/{token_bucket.LEAST_SHARE} at least",
        "`RESOURCE_EXHAUSTED`; a host that has nothing waiting waits twice as long",
    ),
    Row("a stream that does not say who it is", seconds(client_requests.INTRODUCTION), "`DEADLINE_EXCEEDED`"),
    Row("Node", size(node.MOST_NODE), "`INVALID_ARGUMENT`"),
    Row("characters of its id", f"{proxy.LONGEST_ID:,}", "`INVALID_ARGUMENT`"),
    Row("characters of a text that is read of its metadata", f"{node_metadata.LONGEST_TEXT:,}", "`INVALID_ARGUMENT`"),
    Row("characters of its ISTIO_VERSION", f"{proxy.LONGEST_VERSION}", "the rest is not read"),
    Row("characters of its POD_PORTS", f"{targets.LONGEST_POD_PORTS:,}", "they are not read"),
    Row("addresses that it says its proxy has", f"{proxy.MOST_ADDRESSES}", "`INVALID_ARGUMENT`"),
    Row("values of its metadata that are read", f"{node.MOST_VALUES:,}", "`INVALID_ARGUMENT`"),
    Row("characters of them and of its locality", size(node.MOST_KEPT), "`INVALID_ARGUMENT`"),
    Row("levels of its metadata", f"{node.DEEPEST}", "`INVALID_ARGUMENT`"),
    Row("names in a request", f"{wire_requests.MOST_NAMES:,}", "`RESOURCE_EXHAUSTED`"),
    Row("names that a stream asks for", f"{wire_requests.MOST_NAMES:,}", "`RESOURCE_EXHAUSTED`"),
    Row("characters of these", f"{bounds.MOST_CHARACTERS:,}", "`RESOURCE_EXHAUSTED`"),
    Row("characters of a type URL, a nonce, a version", f"{wire_requests.MOST_TEXT}", "the rest is not read"),
    Row("characters of what a NACK says", f"{wire_requests.MOST_REASON:,}", "the rest is not read"),
    Row(
        "names of a type that are kept, to be read once",
        f"{size(repeated_names.MOST)}, of {repeated_names.MOST_TYPES} types",
        "they are read again each time",
    ),
    Row(
        "names that a stream names again with each request",
        f"{client_requests.NAMES_AHEAD / client_requests.NAME_COST:,.0f}, then {1 / client_requests.NAME_COST:,.0f}/s",
        "read later",
    ),
    Row("request or Node that is decoded at once", size(aside.LARGE), "decoded in a thread, one at a time"),
    Row("unknown types of a stream that are remembered", f"{session.MOST_REFUSED}", "ignored without a word"),
    Row("characters of names that are shared", f"{names.POOLED:,}", "the pool begins anew"),
    Row("requests of a stream that wait", "1", "its window fills"),
    Row("pushes of a stream that wait", "1", "later ones become one with it"),
    Row("pushes of a stream without an answer", f"{open_pushes.MOST_OPEN}", "the oldest is recorded as unanswered"),
    Row("first configurations on their way", f"{supervisor.ADMITTED}", "newcomers wait in line"),
    Row("wait of a line that does not move", seconds(admission.STANDSTILL), "one more is let in"),
    Row("a place in it without an ACK", seconds(admission.PATIENCE), "the next one is let in"),
    Row("large pushes in flight", "min(15 + 5 x cores, 100)", "they wait", "PILOT_PUSH_THROTTLE"),
    Row("resources that were built and are remembered", f"two generations of {size(memo.HEAVIEST)}", "the older fades"),
    Row("snapshots kept for clients that none concerns", f"{push_scheduler.LONGEST_UNPLACED}", "they are moved on"),
)
FILES = (
    Row("file", size(folder_scan.LARGEST_FILE), "reported; what it said last stays"),
    Row("levels of a document, YAML or JSON", f"{yaml_values.MAX_DEPTH}", "reported"),
    Row("values in a document", f"{yaml_values.MAX_VALUES:,}", "reported"),
    Row("values that its aliases stand for", f"{yaml_values.MAX_UNFOLDED:,}", "reported"),
    Row("links in a row", f"{folder_scan.LINKS}", "reported"),
)
IDENTITY = (
    Row("request to sign a certificate", size(csr.MOST), "`RESOURCE_EXHAUSTED`"),
    Row("wait for it after its headers", seconds(ca_service.PATIENCE), "`DEADLINE_EXCEEDED`"),
    Row("such calls that are worked on at a time", f"{ca_service.TURNS}", "they wait in line"),
    Row("bits of its RSA key", f"{csr_request.SHORTEST_RSA:,} to {csr_request.LONGEST_RSA:,}", "`INVALID_ARGUMENT`"),
    Row("life of a workload's certificate", "90 days", "`INVALID_ARGUMENT`", "MAX_WORKLOAD_CERT_TTL"),
    Row("characters of a token", f"{tokens.LONGEST_TOKEN:,}", "`UNAUTHENTICATED`"),
    Row("keys of one issuer of tokens", f"{tokens.MOST_KEYS}", "not looked at"),
    Row("characters of a forwarded client certificate", f"{forwarded.LONGEST:,}", "`UNAUTHENTICATED`"),
    Row("file of a certificate authority", size(authority_files.LARGEST), "not used; what was in force stays"),
)
KEYS = (
    Row("answer to a fetch of keys", size(key_sets.LONGEST_BODY), "no keys; those known before stay"),
    Row("time that it may take", seconds(request_authentication.PATIENCE), "no keys, unless the rule has another time"),
    Row("the same, whatever a rule says", seconds(jwks_source.LONGEST_PATIENCE), "no keys"),
    Row("redirects", f"{key_fetching.MOST_REDIRECTS}", "no keys"),
    Row("addresses of a host that are tried", f"{key_fetching.MOST_ADDRESSES}", "no keys"),
    Row("fetches under way", f"{jwks_source.AT_ONCE}", "they wait"),
    Row("pause between two fetches that fail", seconds(jwks_source.LONGEST_RETRY), "it doubles up to that"),
    Row("places from which keys are fetched", f"{supervisor.MOST_KEY_SETS:,}", "the source begins anew"),
    Row("wait of a snapshot for new keys", seconds(snapshot_builder.HELD), "it goes without them"),
    Row("the same of the first one", seconds(snapshot_builder.HELD_FIRST), "it goes without them"),
)
NAMES = (
    Row(
        "names of gateways that are looked up",
        f"{dns_source.MOST_NAMES}",
        "the last by name are left out, with a warning",
    ),
    Row("lookups under way", f"{dns_source.AT_ONCE}", "they wait"),
    Row("time that one may take", seconds(dns_source.PATIENCE), "the addresses of before stay"),
)
PAGES = (
    Row("connections", f"{http1.MOST_CONNECTIONS}", "the oldest is closed"),
    Row("connections accepted", f"{http1.ACCEPTED} each {seconds(http1.REST)}", "they wait in the kernel"),
    Row("connections that wait there", f"{http1.BACKLOG:,}", "the kernel drops them; clients try again"),
    Row("requests of a connection", "1, in HTTP/1.1 or 1.0", "not read; other versions: 505"),
    Row("line and headers of a request", size(http1.LONGEST_HEAD), "431"),
    Row("wait for it", seconds(http1.PATIENCE), "closed"),
    Row("time for a page to be built and taken", seconds(http1.DEADLINE), "closed"),
    Row("pages that are built", "1, in a thread", "they wait in line"),
    Row(f"pages over {size(http1.LARGE)} on their way", f"{http1.MOST_LARGE}", "the oldest is broken off"),
)
TABLES = {
    "Connections": CONNECTIONS,
    "HTTP/2": HTTP2,
    "gRPC": GRPC,
    "xDS": XDS,
    "Files": FILES,
    "Identity": IDENTITY,
    "Keys of token issuers": KEYS,
    "Names of gateways": NAMES,
    "Debug pages, readiness and metrics": PAGES,
}
INTRODUCTION = """# Limits

Generated from the code by `make docs`. What a client or a file may cost, and what happens beyond that. A limit without
a variable is a constant of the module that keeps it, beside its reason; those of HTTP/2 and gRPC are in
`actors/grpc/limits.py`.
"""


def main() -> None:
    """Write the page."""
    TARGET.write_text(build_page())


def build_page() -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for title, rows in TABLES.items():
        lines += [f"## {title}", "", "| limit | default | variable | beyond it |", "|---|---|---|---|"]
        lines += [
            f"| {row.what} | {row.value} | {f'`{row.settable}`' if row.settable else ''} | {row.beyond} |"
            for row in rows
        ]
        lines.append("")
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def unmentioned() -> set[str]:
    """Fields of `Limits` that this file does not mention."""
    source = Path(__file__).read_text()
    return {field.name for field in fields(Limits) if f"LIMITS.{field.name}" not in source}


if __name__ == "__main__":
    main()
