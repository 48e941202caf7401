"""What the server has done and is doing, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Totals:
    """Counted while the server runs, by itself and its connections."""

    calls_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_broken: int = 0
    handshakes_timed_out: int = 0
    peers_dead: int = 0
    peers_idle: int = 0
    peers_stuck: int = 0
    peers_dismissed: int = 0
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
    connections_refused: int
    """Closed unheard because there were too many."""
    connections_broken: int
    """Ended by an error of the network or of TLS, failed handshakes included."""
    handshakes_timed_out: int
    """Closed because they did not begin to speak HTTP/2 in time, or before others that came later."""
    peers_dead: int
    """Aborted because they did not answer a PING."""
    peers_idle: int
    """Asked to leave because they had no call for long."""
    peers_stuck: int
    """Aborted because they read nothing of what was sent."""
    peers_dismissed: int
    """Ended with a GOAWAY that says which rule they broke or which budget they exceeded."""
    calls_accepted: int
    """Calls given to a handler."""
    calls_refused: int
    """Calls answered without one: bad headers, unknown methods, too many at once, or too late in a drain."""
    crashes: int
    """Handlers, or connections, that ended by a bug of ours."""
