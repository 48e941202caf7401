"""What all connections of one server share: whom they serve with, within which bounds, and where they count."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from actors.grpc.budget import Allowance
from actors.grpc.faults import PeerFault
from actors.grpc.limits import Limits
from actors.grpc.newcomers import Newcomers
from actors.grpc.statistics import Totals
from actors.ports import StreamHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What all connections of one server share."""

    handlers: Mapping[str, StreamHandler]
    """The handler of each full method."""
    limits: Limits
    tls: Callable[[], ssl.SSLContext] | None
    """Asked for each connection. None: plain text."""
    totals: Totals
    newcomers: Newcomers
    """Those that have not begun to speak HTTP/2."""
    large_messages: Allowance
    """What all large messages that arrive may hold."""
    on_crash: Callable[[Exception], None]
    """Is told each crash, so that somebody logs it. Must not raise."""
    on_fault: Callable[[str, PeerFault], None]
    """Is told whose connection was ended for which fault, so that somebody logs it. Must not raise."""
