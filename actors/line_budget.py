"""How many lines in the log strangers may cause: whoever calls again and again must not fill it, or hide others in it.

Theory. Each host has some lines a minute; those beyond are counted, and its first line of a later minute says how many
there were. Of hosts too only so many are kept apart in a minute: all others share the lines of one more. So the log
gets at most `MOST_HOSTS + 1` times `LINES` lines a minute, and what is kept here is bounded as well.
"""

from __future__ import annotations

from dataclasses import dataclass

LINES = 10
"""Of a host in a minute: a mistake in a deployment shows in its variety, a flood does not."""

MOST_HOSTS = 200

MINUTE = 60.0

_OTHERS = ""


@dataclass(slots=True)
class _Told:
    """What a host was granted since `began` (monotonic seconds), and what was left out since its last line."""

    began: float
    lines: int = 0
    left_out: int = 0


class LineBudget:
    """Says whether a line is written."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Told] = {}

    def left_out(self, address: str, now: float) -> int | None:
        """For a line about `address` (HOST:PORT) at `now` (monotonic seconds): how many about that host were left out
        since its last one, or None to leave this one out too.
        """
        told = self._told(address.rpartition(":")[0], now)
        if now >= told.began + MINUTE:
            told.began, told.lines = now, 0
        if told.lines == LINES:
            told.left_out += 1
            return None
        told.lines += 1
        count, told.left_out = told.left_out, 0
        return count

    def _told(self, host: str, now: float) -> _Told:
        if host not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            self._forget(now)
        if host not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            host = _OTHERS
        return self._hosts.setdefault(host, _Told(now))

    def _forget(self, now: float) -> None:
        """Forget hosts whose minute is over; what was left out of them is never told."""
        for host in [host for host, told in self._hosts.items() if now >= told.began + MINUTE]:
            del self._hosts[host]
