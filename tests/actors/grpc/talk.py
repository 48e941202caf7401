"""What several tests of the server say and wait for."""

import trio

from actors.grpc.limits import Rate

ECHO = "/echo"
UNBOUNDED = Rate(10**6, 10**6)
"""A budget that no test exceeds."""


async def linger(stream):
    """A handler that never ends by itself."""
    await trio.sleep_forever()


class Lingering:
    """A handler that never ends by itself, and says whether it has begun and whether it has been stopped."""

    def __init__(self) -> None:
        self.started, self.stopped = trio.Event(), trio.Event()

    async def __call__(self, _stream: object) -> None:
        """Serve one call."""
        self.started.set()
        try:
            await trio.sleep_forever()
        finally:
            self.stopped.set()


async def hello(peer, path="/test.Service/Talk"):
    """One echoed message."""
    stream = await peer.open({":path": path})
    await peer.say(stream, b"hello", end=True)
    assert await peer.body(10) == b"\0\0\0\0\x05hello"
    assert (await peer.trailers())["grpc-status"] == "0"


async def until(condition):
    """Wait until something holds."""
    with trio.fail_after(5):
        while not condition():
            await trio.sleep(0.002)
