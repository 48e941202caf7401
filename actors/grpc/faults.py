"""What a peer did that costs it its connection."""

from h2.errors import ErrorCodes


class PeerFault(Exception):  # noqa: N818 (it says whose)
    """The peer broke a rule of HTTP/2 or exceeded a budget. It ends its connection, with a GOAWAY that says why.

    `code` of that GOAWAY, and its `reason` as text, which clients show or even understand ("too_many_pings").
    """

    def __init__(self, code: ErrorCodes, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
