"""Proxies whose view or scope cannot be found in the newest snapshot, by a bug of ours: trouble for them alone.

Who has a configuration keeps it: it is the last one that was good, and an Envoy that lost its control plane would go
on with it too. It is asked to announce itself with every further snapshot, and is then told all that it has missed. Who
has none is sent away with UNAVAILABLE: it would wait for nothing, and it will come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.logs import get_logger
from actors.messages import Announce, StreamEnded
from actors.tree import describe
from protocol.statuses import UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mailbox import ControlMailbox
    from actors.messages import ToConnection
    from actors.metrics import Metrics
    from trierarch.push.fleet import Member

log = get_logger("push_scheduler")


class Stranded:
    """Those who keep what they have for now, by name; and whether they were asked to announce themselves since."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._asked: dict[str, bool] = {}

    def add(self, member: Member, mailbox: ControlMailbox[ToConnection], error: Exception) -> bool:
        """A member has no view; whether it keeps what it has. Else it is told to go."""
        if member.name not in self._asked:
            self._metrics.contained_errors.labels("placement").inc()
            log.error("placement_failed", connection=member.name, exc_info=error)
        served = member.view is not None or member.snapshot > 0
        if served:
            self._asked[member.name] = False
        else:
            mailbox.post(StreamEnded(reason=f"no configuration can be found: {describe(error)}", code=UNAVAILABLE))
        return served

    def discard(self, name: str) -> None:
        """It has a view again, or it has gone."""
        self._asked.pop(name, None)

    def try_again(self, mailboxes: Mapping[str, ControlMailbox[ToConnection]]) -> None:
        """Ask each to announce itself, once: one that is stuck in a write will do so when it is not."""
        for name, asked in self._asked.items():
            if not asked:
                mailboxes[name].post(Announce())
        self._asked = dict.fromkeys(self._asked, True)
