"""The same question again and again beside a test: who asks all the time notices what the test does."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

AnswerT = TypeVar("AnswerT")


class Asking(Generic[AnswerT]):
    """Asks one question after another for the length of a `with` block. `answers`: the different ones, and errors of
    the connection as text; `count`: how often it has asked.
    """

    def __init__(self, ask: Callable[[], AnswerT]) -> None:
        self.answers: set[AnswerT | str] = set()
        self.count = 0
        self._ask = ask
        self._end = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.002):
            try:
                self.answers.add(self._ask())
            except httpx.TransportError as error:
                self.answers.add(repr(error))
            self.count += 1
