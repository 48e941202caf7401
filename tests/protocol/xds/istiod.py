"""What istiod answers on one stream: the rules of xds-server.md §6.4 and §6.9 to §6.11, as plainly as they can be said.

It shares nothing with `protocol.xds` and is slow on purpose: sets of names, no digests, no differences. `named` is the
one thing in it that istiod does not have: names of a wildcard type that were asked for. Taking back others is answered
by istiod with everything, and by us, by decision, with nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

WILDCARD = {"CDS", "LDS", "NDS"}
EVERY_NAME = {"EDS", "RDS"}
"""A name of these types has an answer whether it is defined or not."""

Response = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Type, names sent, names removed."""


@dataclass
class Watch:
    """What istiod remembers of a type. `pressed`: the next request is answered though it looks like an ACK."""

    names: set[str]
    named: set[str] = field(default_factory=set)
    answers: int = 0
    pressed: bool = False


class Istiod:
    """One stream. `world`: what exists, type -> names. A nonce is "" (none), "last" or any other word (another one)."""

    def __init__(self, *, is_delta: bool) -> None:
        self.is_delta = is_delta
        self.world: dict[str, set[str]] = defaultdict(set)
        self.watches: dict[str, Watch] = {}

    def answer_sotw(self, short: str, names: set[str], nonce: str, *, nack: bool) -> list[Response]:
        """§6.4, from its first case to its last."""
        watch = self.watches.get(short)
        if nack:
            return []
        if not names and short not in WILDCARD:
            self.watches.pop(short, None)
            return []
        if not nonce or watch is None:
            return self._begin_sotw(short, names)
        if self._is_stale(watch, nonce):
            return []
        before, watch.names, pressed, watch.pressed = watch.names, names, watch.pressed, False
        if pressed:
            return self._send(short, names)
        if names == before or (short not in WILDCARD and names <= before):
            return []
        return self._send(short, names - before)

    def answer_delta(
        self, short: str, subscribe: set[str], unsubscribe: set[str], initial: set[str], nonce: str, *, nack: bool
    ) -> list[Response]:
        """§6.9, from its first case to its last, and what is sent then (§6.10, §6.11)."""
        watch, wants = self.watches.get(short), subscribe | initial
        if nack:
            return []
        if watch is None:
            watch = self.watches[short] = Watch(names=(wants - unsubscribe) - {"*"})
        elif nonce and self._is_stale(watch, nonce):
            return []
        else:
            held = watch.names & watch.named if short in WILDCARD else watch.names
            changed = bool(wants - watch.names) or bool(unsubscribe & held)
            watch.named -= unsubscribe
            if not changed:
                return []
            watch.names = ((watch.names | wants) - unsubscribe) - {"*"}
        watch.named = (watch.named | subscribe) - unsubscribe - {"*"}
        return self._send_delta(short, wants - unsubscribe - {"*"}, unsubscribe - {"*"})

    def change(self, world: dict[str, set[str]], pushed: set[str]) -> None:
        """Other things exist; of these types something was pushed."""
        self.world.update(world)
        for short in pushed:
            self._note(short)

    # --- what is sent -------------------------------------------------------------------------------------------------
    def _begin_sotw(self, short: str, names: set[str]) -> list[Response]:
        self.watches[short] = Watch(names=names)
        if short == "CDS" and "EDS" in self.watches:
            self.watches["EDS"].pressed = True
        return self._send(short, names)

    def _send(self, short: str, names: set[str]) -> list[Response]:
        found = self._find(short, names)
        if found is None:
            return []
        self._note(short)
        return [(short, tuple(sorted(found)), ())]

    def _send_delta(self, short: str, subscribed: set[str], unsubscribed: set[str]) -> list[Response]:
        watch = self.watches[short]
        names = subscribed if subscribed or unsubscribed else watch.names
        sent = self._send(short, names)
        if sent and short in WILDCARD | EVERY_NAME:
            sent = [(short, sent[0][1], tuple(sorted(names - set(sent[0][1]))))]
        if short == "CDS" and "EDS" in self.watches:
            sent += self._send("EDS", self.watches["EDS"].names)
        return sent

    def _find(self, short: str, names: set[str]) -> set[str] | None:
        """What is found of these names; None if that is no answer."""
        if short in WILDCARD:
            return self.world[short]
        if short in EVERY_NAME:
            return names or None
        found = names & self.world[short]
        return found if found or short == "ECDS" else None

    def _note(self, short: str) -> None:
        watch = self.watches[short]
        watch.answers += 1
        if self.is_delta and short in WILDCARD:
            watch.names = set(self.world[short])

    def _is_stale(self, watch: Watch, nonce: str) -> bool:
        """The last nonce that the client got may be one of an earlier watch."""
        return nonce != "last" or not watch.answers
