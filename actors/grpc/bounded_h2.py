"""h2's connection, with bounds where it has none.

- Streams beyond the limit: h2 ends the connection; RFC 9113 §5.1.2 has the stream refused. `actors.grpc.calls` does.
- Closed streams: h2 remembers 65,536 of them, 6 MB.
- Unknown settings: h2 keeps each; RFC 9113 §6.5.2 has them ignored. 65,536 of them are 50 MB.
- Our HPACK table: it grows as the peer's SETTINGS say, up to 4 GiB.
- The resizes of that table: h2 keeps all of them until it sends headers. Two tell as much (RFC 7541 §4.2).
"""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack import Encoder

from actors.grpc.limits import Limits

H2_CONFIGURATION = H2Configuration(
    client_side=False,
    # Any byte has a meaning: bad headers are refused call by call (actors.grpc.requests), not by ending the connection.
    header_encoding="latin-1",
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    # Ours are right as they are written.
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)

_HIGHEST_STREAM_COUNT = 2**31
_TABLE_SIZE = 4096
"""Of our HPACK table: HTTP/2's default. We say little, and nothing twice."""


class BoundedH2Connection(H2Connection):
    """A server's end of HTTP/2 that has said nothing yet, which is when h2 lets its settings be replaced."""

    MAX_CLOSED_STREAMS = 1000

    def __init__(self, limits: Limits) -> None:
        super().__init__(H2_CONFIGURATION)
        self.local_settings = _OurSettings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_list_size,
                SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window,
            },
        )
        self.remote_settings = _TheirSettings(client=True)
        self.encoder = _BoundedEncoder()
        self.decoder.max_header_list_size = limits.max_header_list_size


class _OurSettings(Settings):
    """Announces a number of streams, and leaves it to others to enforce it."""

    @property
    def max_concurrent_streams(self) -> int:
        return _HIGHEST_STREAM_COUNT

    @max_concurrent_streams.setter
    def max_concurrent_streams(self, value: int) -> None:
        self[SettingCodes.MAX_CONCURRENT_STREAMS] = value


class _TheirSettings(Settings):
    """Ignores what it does not know."""

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        if key in _KNOWN:
            super().__setitem__(key, value)


_KNOWN = frozenset(SettingCodes)


class _BoundedEncoder(Encoder):
    """Keeps its table small, whatever the peer offers, and of its resizes the smallest and the last."""

    @property
    def header_table_size(self) -> int:
        return int(self.header_table.maxsize)

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        self.header_table.maxsize = min(value, _TABLE_SIZE)
        if self.header_table.resized:
            last = self.header_table.maxsize
            smallest = min([*self.table_size_changes, last])
            self.table_size_changes = [last] if last == smallest else [smallest, last]
