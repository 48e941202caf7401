"""Room for so many who do not get on, such as connections that have not begun to speak; the one longest in it goes.

Whoever connects and says no more holds a socket, a task and the buffers of a handshake for as long as a handshake may
take. To refuse the newest would shut everybody out for that time, for who floods has filled the room first. The oldest
is he who does not go on: an honest peer is through in a few rounds, and only so many are accepted in each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count


class Newcomers:
    """The room. Invariant: no more than `most` are in it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._leave: dict[int, Callable[[], None]] = {}
        self._tickets = count()

    def __len__(self) -> int:
        return len(self._leave)

    @contextmanager
    def waiting(self, leave: Callable[[], None]) -> Iterator[None]:
        """Be in the room. `leave` is called at most once, when it is full and nobody has been here for longer."""
        while len(self._leave) >= self._most:
            self._leave.pop(next(iter(self._leave)))()
        ticket = next(self._tickets)
        self._leave[ticket] = leave
        try:
            yield
        finally:
            self._leave.pop(ticket, None)
