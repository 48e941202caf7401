"""The two kinds of error that this program raises. A third kind, the user's, is a value: `trierarch.config.findings`.

Any exception that is not a `RemoteError` is our own bug: it crashes the actor that met it and the supervisor acts.
"""


class LocalError(Exception):
    """We broke a rule of our own (a bug). Nobody catches it but `actors.supervision`."""


class RemoteError(Exception):
    """The peer broke a rule of the protocol. It ends that peer's stream with a gRPC status and is logged once.

    `code` is the numeric gRPC status (https://grpc.io/docs/guides/status-codes/), `message` goes to the peer.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
