"""What the tree of actors meets outside of itself, played: resolvers, token issuers, and the age of its own root.

    outside = Outside()
    with outside.answering():           # instead of the system, the network and the clock
        mesh = await start_mesh(..., outside=outside)
        outside.change()                # other addresses and other keys from now on
        outside.age()                   # the root is due to be renewed, once

`finds` are the objects that sources make of it for what a snapshot wants, so that a fresh build can have them too.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

import trio

from actors import authority, certificate_rotor, dns_source, jwks_source
from actors.key_fetching import KeyFetcher
from trierarch.config.json_web_keys import write_keys
from trierarch.config.key_sets import KeySet, build_key_set
from trierarch.config.resolved_names import build_resolved_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.serving_tls import ServingCertificate
    from trierarch.config.objects import AnyObject
    from trierarch.push.context import PushContext

SLOWNESS = 0.03
"""Virtual seconds that an answer takes."""


class Outside:
    """Answers whatever is asked. `served`: what the secure port was served with, newest last; `turn`: how often the
    answers have changed.
    """

    def __init__(self) -> None:
        self.served: list[ServingCertificate] = []
        self.turn = 0
        self._due = False

    def change(self) -> None:
        """Give other answers from now on; they are noticed when sources look again."""
        self.turn += 1

    def age(self) -> None:
        """Let our own root be due, until it is renewed."""
        self._due = True

    def finds(self, context: PushContext) -> tuple[AnyObject, ...]:
        """What is found of everything that a snapshot wants."""
        names, locations = context.network_gateways.names, context.request_authentications.wanted
        return (
            *(build_resolved_name(name, self._addresses(name), dns_source.NAME) for name in names),
            *(build_key_set(location, self.keys(location), jwks_source.NAME) for location in locations),
        )

    def keys(self, location):
        """What an issuer says at this place."""
        return KeySet(write_keys([{"kty": "oct", "k": "AQ", "kid": f"{location.url} {self.turn}"}]))

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Stand in for what is asked otherwise, for the length of a block."""
        build_context = certificate_rotor.build_context

        def noted_context(certificate):
            self.served.append(certificate)
            return build_context(certificate)

        with ExitStack() as stack:
            stack.enter_context(patch.object(dns_source, "system_lookup", lambda: self._look_up))
            stack.enter_context(patch.object(KeyFetcher, "fetch", lambda _, *asked: self._fetch(*asked)))
            stack.enter_context(patch.object(authority, "root_due", self._root_due))
            stack.enter_context(patch.object(certificate_rotor, "build_context", noted_context))
            yield

    async def _look_up(self, name):
        addresses = self._addresses(name)
        await trio.sleep(SLOWNESS)
        return addresses

    async def _fetch(self, location, _patience):
        found = self.keys(location)
        await trio.sleep(SLOWNESS)
        return found

    def _root_due(self, *_, **__):
        due, self._due = self._due, False
        return due

    def _addresses(self, name):
        return (f"192.0.2.{sum(name.encode()) % 100 + self.turn}",)
