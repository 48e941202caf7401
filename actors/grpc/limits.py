"""Every bound that the server keeps, as one value. Sizes in bytes, times in seconds."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a peer may cost us. The defaults suit xDS: few long streams, small requests, large answers."""

    max_message_size: int = 4 * MIB
    """Largest message accepted, judged by its prefix. gRPC's usual default; a reconnect may take 0.3 MB."""

    stream_window: int = 65_535
    """How much a peer may send on one stream before its actor has read it. HTTP/2's own default (RFC 9113 §6.9.2)."""

    connection_window: int = 4 * 65_535
    """The same for all streams of a connection, so that one unread stream does not stop its neighbours."""

    max_concurrent_streams: int = 100
    """Streams that one connection may have open, announced in our SETTINGS. A sidecar needs two or three."""

    handshake_timeout: float = 10.0
    """From accepting a connection to the peer's first SETTINGS, TLS handshake included."""

    keepalive_interval: float = 30.0
    """A peer that was silent for so long is sent a PING."""

    keepalive_timeout: float = 10.0
    """A peer that stays silent for so long after a PING is dead."""

    accept_burst: int = 16
    """Connections accepted in one turn of the loop. Each costs up to 3 ms of CPU (TLS handshake)."""

    accept_pause: float = 0.005
    """Rest after a full burst, so that a storm of connections does not starve those that are served."""

    backlog: int = 1024
    """Connections that the kernel may hold while bursts and pauses pass."""

    batch_size: int = 256 * KIB
    """Bytes of DATA handed to the transport between two checkpoints."""

    high_water: int = 256 * KIB
    """A transport that holds more unsent bytes is full: senders wait."""

    low_water: int = 64 * KIB
    """A full transport lets senders go on when it holds no more than this."""
