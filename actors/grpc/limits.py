"""Every bound that the server keeps, as one value. Sizes in bytes, times in seconds.

`docs/limits.md` shows them with what happens to whoever exceeds them; a test holds the two together.
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Rate:
    """How much may be spent at once, and how much of that comes back in a second."""

    burst: float
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a peer may cost us. The defaults suit xDS: few long streams, small requests, large answers."""

    # --- how many ---
    max_connections: int = 20_000
    """Connections of the server; one more is closed unheard. Kept free of TLS, an idle one costs about 30 KB."""

    max_newcomers: int = 4_000
    """Connections of the server that do not speak HTTP/2 yet; for one more the oldest is closed. Each costs up to
    60 KB with TLS. At the fastest that connections are accepted, somebody new has a second.
    """

    max_calls: int = 20_000
    """Streams of the server, whatever their connections; one more is refused, to be tried elsewhere."""

    max_concurrent_streams: int = 100
    """Streams that one connection may have open, announced in our SETTINGS; one more is refused (RFC 9113 §5.1.2).
    A sidecar needs two or three. A call counts until its handler has ended, so that a reset frees nothing early: what
    stopped rapid reset (CVE-2023-44487) in Go's net/http2.
    """

    # --- how large ---
    max_message_size: int = 4 * MIB
    """Largest message accepted, judged by its prefix. gRPC's usual default; a reconnect may take 0.3 MB."""

    large_message_size: int = 64 * KIB
    """Messages larger than this are counted while they arrive: a window holds the others already."""

    large_messages: int = 256 * MIB
    """What all large messages together may hold while they arrive; of that one connection twice `max_message_size`."""

    max_header_list_size: int = 16 * KIB
    """Headers of a call, unfolded from HPACK, and on the wire with all CONTINUATIONs (CVE-2024-27316). gRPC's C core
    takes as much at most.
    """

    max_frame_size: int = 16 * KIB
    """Payload of a frame: HTTP/2's own default, never raised. Judged by its header, before it is held."""

    stream_window: int = 65_535
    """How much a peer may send on one stream before its actor has read it. HTTP/2's own default (RFC 9113 §6.9.2)."""

    connection_window: int = 4 * 65_535
    """The same for all streams of a connection, so that one unread stream does not stop its neighbours."""

    # --- how often ---
    wasted_calls: Rate = Rate(100, 20)
    """Calls that a connection makes and resets, or that must be refused, beside those that it may have open; one that
    is served to its end does not count. nghttp2 allows 1,000 resets and 33 a second, Envoy 500 in all.
    """

    cheap_frames: Rate = Rate(1000, 100)
    """Points for frames that cost us more than the peer; `actors.grpc.meter.COSTS` has the price of each: PING,
    SETTINGS, empty DATA, PRIORITY floods and the like (CVE-2019-9511 to 9518). Envoy bounds most kinds, Go's net/http2
    keeps 10,000 answers to them.
    """

    data_per_point: int = 4 * KIB
    """DATA sent for which a peer earns a point more: readers of much send many WINDOW_UPDATEs, and PINGs to measure."""

    work: Rate = Rate(16 * MIB, 2 * MIB)
    """Bytes at which a connection is read; a HEADERS or DATA frame counts as 4 KiB at least. Who sends more is read
    later, not refused: 4,000 requests at once, 500 a second after that.
    """

    accept_burst: int = 16
    """Connections accepted in one turn of the loop. Each costs up to 3 ms of CPU (TLS handshake)."""

    accept_pause: float = 0.005
    """Rest after a full burst, so that a storm of connections does not starve those that are served."""

    backlog: int = 1024
    """Connections that the kernel may hold while bursts and pauses pass."""

    frames_per_step: int = 32
    """Frames of one peer that are processed before all others have their turn: about 1 ms."""

    # --- how long ---
    handshake_timeout: float = 10.0
    """From accepting a connection to the peer's first SETTINGS, TLS handshake included."""

    idle_timeout: float = 300.0
    """A connection without a call for so long is asked to leave (GOAWAY) and closed. gRPC's max_connection_idle."""

    unused_timeout: float = 20.0
    """The same for a connection that has never had a call: clients connect when they have one to make, and with TLS
    each costs 45 KB.
    """

    keepalive_interval: float = 30.0
    """A peer that was silent for so long is sent a PING."""

    keepalive_timeout: float = 10.0
    """A peer that stays silent for so long after a PING is dead."""

    message_timeout: float = 60.0
    """For a message that was begun, in either direction, and a second more for each `slowest` bytes of it."""

    slowest: int = 16 * KIB
    """Bytes a second at which a large message must move after that."""

    stuck_timeout: float = 60.0
    """A connection whose socket takes no byte for so long is aborted, however lively the peer is otherwise."""

    farewell: float = 1.0
    """After GOAWAY for a fault the peer is listened to for so long, for a socket closed with unread input loses it."""

    # --- how we send ---
    batch_size: int = MIB
    """Bytes of DATA handed to the transport between two checkpoints: a millisecond's work. What the kernel does not
    take of them waits as references to buffers that all streams share.
    """

    encrypted_batch_size: int = 256 * KIB
    """The same with TLS, where what waits is a copy."""

    high_water: int = 256 * KIB
    """A transport that holds more unsent bytes is full: senders wait."""

    low_water: int = 64 * KIB
    """A full transport lets senders go on when it holds no more than this."""

    @property
    def max_unsent(self) -> int:
        """A transport that holds more is aborted: beyond full and a batch there are only answers that nobody reads."""
        return self.high_water + self.batch_size + 64 * KIB

    def time_for(self, size: int) -> float:
        """Seconds that a message of this size may take."""
        return self.message_timeout + size / self.slowest
