"""Logging: structlog set up once, and the table of every event that the actors log.

An event name is a literal in snake_case, past tense; everything else is a key. Pure code does not log: it returns what
happened and the actor that drives it logs that. What an event means is said here and nowhere else, for the reference in
the documentation is made from `EVENTS`, and a test compares it with the source.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO, cast

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import EventDict, FilteringBoundLogger, Processor

EVENTS: Mapping[str, str] = {
    # supervision: keys supervisor, child, reason, restarts
    "child_started": "A child is up for the first time.",
    "child_restarted": "A child is up again after a crash, a kill, or the crash of a neighbour that it depends on.",
    "child_crashed": "A child ended although it should not have; `reason` names the exception.",
    "child_killed": "A child was killed on request; it counts as a crash.",
    "child_stopped": "A child was stopped by its supervisor, or ended as it may.",
    "shutdown_overdue": "A child did not stop in time: a bug, for it shields itself from cancellation.",
    "intensity_exceeded": "Too many restarts in too short a time: the supervisor fails upward.",
    # intake
    "config_changed": "Objects changed; `count` of them, the first few in `keys`.",
    "config_resent": "The whole configuration was sent again, because `asked_by` was restarted.",
    "sources_awaited": "Intake started and holds configuration back until each of `sources` has sent its full set.",
    "sources_synced": "Every source has sent its full set.",
    "object_rejected": "An object is not in force, or only as it was good last (`kept`); `reason` and `hint` say why.",
    "object_remarked": "An object is in force, but something about it looks wrong.",
    "finding_resolved": "A rejection or remark is gone.",
    # sources
    "source_read": "A source was read as a whole and all its `objects` were sent, after `seconds`.",
    "source_vanished": "A source cannot be read any more; its last good configuration stays in force.",
    "source_returned": "A vanished source can be read again.",
    "lookup_failed": "The name of a gateway cannot be looked up; the addresses that it had last (`kept`) stay.",
    "lookup_recovered": "Such a name can be looked up again.",
    "names_left_out": "There are more names of gateways than are looked up; so many are left out.",
    "keys_fetched": "The keys of an issuer of tokens were fetched, for the first time or after a failure.",
    "keys_unfetched": "Keys cannot be fetched: those that were `kept` stay, or the issuer's tokens are refused.",
    "fetch_failed": "Fetching keys failed by an error of ours: a bug.",
    "watching_fell_back": "The system does not tell of changed files here: they are looked at every second instead.",
    "kind_skipped": "A kind that is not understood; its objects are skipped. Said once for each kind.",
    # debouncer
    "batch_released": "A batch of `events` goes to the snapshot builder after it `waited` and was `quiet`, in seconds.",
    # snapshot builder
    "snapshot_built": "A snapshot is built; `changed` push keys differ, `causes` led to it, it has so many `findings`.",
    "snapshot_held": "A snapshot waits a little for keys of token issuers that are being fetched for the first time.",
    "snapshot_failed": "No snapshot could be built of the changes with these `causes`: a bug. The last one stays.",
    # generator
    "generation_failed": "Resources of `types` cannot be built for a view in `namespace`: a bug.",
    "placement_failed": "A proxy's view cannot be found in a snapshot: a bug. It keeps what it has, or is sent away.",
    # identity
    "authority_adopted": "A certificate authority is in force: its signer, until when, and how many roots are trusted.",
    "authority_rejected": "The authority's files are not used; `reason` says why. What was in force stays.",
    "root_in_memory": "The root of the mesh was made just now and will end with this process.",
    "certificate_signed": "A workload got a certificate: its `identities`, `serial`, until when, and for which proof.",
    "signing_failed": "A certificate could not be signed: a bug. Whoever asked was told.",
    "csr_refused": "A caller who is known was not given a certificate; `code` is the gRPC status.",
    "serving_certificate_changed": "New connections to the secure port get another certificate; the old ones go on.",
    "serving_certificate_refused": "No new certificate for the secure port, or one that is no good; the old one stays.",
    "identity_written": "`trierarch identity` has written a new key, certificate and roots.",
    "identity_refused": "`trierarch identity` could not obtain a certificate; it tries again.",
    "secrets_withheld": "A client wants its certificate over ADS but has not proved an identity: it will get none.",
    "certificate_refused": "The certificate authority would not issue a client's certificate; it is asked again.",
    "impersonation_refused": "A caller asked for somebody else's certificate and may not; `reason` says why.",
    "token_keys_read": "The keys of an issuer of tokens were read, and are others than before.",
    "token_keys_unread": "The keys of an issuer of tokens cannot be obtained; those known before stay.",
    "caller_unauthenticated": "A caller could not prove who it is; `reason` joins what each authenticator missed. "
    "A host has some lines a minute: `left_out` counts those before this one that were not written.",
    # streams
    "xds_opened": "A port for xDS is open: the first snapshot is built; if `encrypted`, with a certificate. "
    "`room`: how many connections it takes, as many as the process has descriptors for, or the limit.",
    "page_crashed": "A page of the debug port ended with an exception; whoever asked got an error.",
    "peer_dismissed": "A connection was ended because its client broke HTTP/2's rules or exceeded a budget (GOAWAY); "
    "`left_out` as above.",
    "stream_opened": "A client has said who it is.",
    "stream_ended": "A stream ended; `reason` says how.",
    "stream_refused": "A stream was ended with a gRPC status because its client broke a rule.",
    "stream_crashed": "The handler of a stream failed: a bug.",
    "resources_rejected": "A client rejected a response (NACK) and goes on with what it had.",
    "type_not_served": "A client asked for a resource type that nobody serves; said once for each type of a stream.",
    "push_finished": "The canonical line of a push to one proxy: causes, what was sent, what was not and why, times.",
}
"""Event name to meaning."""


def configure_logs(level: str = "info", *, console: bool | None = None, stream: TextIO | None = None) -> None:
    """Log to `stream` (default: standard error) from `level` up: "debug", "info", "warning" or "error".

    One JSON object a line, or, if `console` (default: whether the stream is a terminal), lines for people. To be called
    once: a logger remembers from its first line on what was in force then. Raises `KeyError` for an unknown level.
    """
    target = sys.stderr if stream is None else stream
    readable = target.isatty() if console is None else console
    structlog.configure(
        processors=[*_COMMON, *(_CONSOLE if readable else _JSON)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=True,
    )


def get_logger(actor: str = "") -> FilteringBoundLogger:
    """A logger whose lines carry the actor's name; may be made at import, before `configure_logs`."""
    return cast("FilteringBoundLogger", structlog.get_logger(actor=actor) if actor else structlog.get_logger())


def _headline_first(_logger: object, _method: str, line: EventDict) -> EventDict:
    head = {key: line.pop(key) for key in ("timestamp", "level", "event")}
    return {**head, **line}


_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
_JSON: tuple[Processor, ...] = (
    structlog.processors.format_exc_info,
    _headline_first,
    structlog.processors.JSONRenderer(),
)
_CONSOLE: tuple[Processor, ...] = (
    structlog.dev.ConsoleRenderer(pad_event_to=24, exception_formatter=structlog.dev.plain_traceback),
)
