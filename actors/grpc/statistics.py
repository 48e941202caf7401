"""What the server has done and is doing, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Totals:
    """Counted while the server runs, by itself and its connections."""

    connections_accepted: int = 0
    connections_broken: int = 0
    handshakes_timed_out: int = 0
    peers_dead: int = 0
    calls_accepted: int = 0
    calls_refused: int = 0
    crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """A snapshot, for metrics and debug pages."""

    connections_open: int
    """Accepted and not closed yet, those in their handshake included."""
    calls_open: int
    """Calls whose handlers have not ended."""
    connections_accepted: int
    """Since the start, like everything below."""
    connections_broken: int
    """Ended by an error of the network or of TLS, failed handshakes included."""
    handshakes_timed_out: int
    """Closed because they did not begin to speak HTTP/2 in time."""
    peers_dead: int
    """Aborted because they did not answer a PING."""
    calls_accepted: int
    """Calls given to a handler."""
    calls_refused: int
    """Calls answered without one: bad headers, unknown methods, or too late in a drain."""
    crashes: int
    """Handlers, or connections, that ended by a bug of ours."""
