"""Whoever hears of files: stands in for intake, beside a source that runs.

Nothing sleeps here: each test waits for what the source sends, with a limit that is only reached by a failure.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio

from actors import file_source
from actors.file_source import plan_sources
from actors.mailbox import Mailbox
from actors.source_messages import ResendAll
from trierarch.config.objects import ObjectKey
from trierarch.settings import Settings

LIMIT = 5.0


def service(name, port=80):
    """The text of a Service."""
    return (
        f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: shop\n"
        f"spec:\n  ports:\n  - name: http\n    port: {port}\n"
    )


def key(name):
    """Its key."""
    return ObjectKey("Kubernetes", "Service", "shop", name)


class Reception:
    """Stands in for intake: what the source has sent, and what it all comes to."""

    def __init__(self) -> None:
        self.mailbox = Mailbox("intake")
        self.inbox = Mailbox("config")
        self.objects = {}
        self.findings = ()

    async def next(self):
        """The next message."""
        with trio.fail_after(LIMIT):
            message = await self.mailbox.receive()
        if message.full:
            self.objects = {}
        self.objects |= {each.key: each for each in message.upserts}
        for gone in message.deletes:
            del self.objects[gone]
        self.findings = message.findings
        return message

    async def until(self, *names):
        """Take messages until exactly the services of these names are there."""
        while set(self.objects) != {key(name) for name in names}:
            await self.next()

    async def until_port(self, name, port):
        """Take messages until a service has this port."""
        while key(name) not in self.objects or self.objects[key(name)].spec.ports[0].port != port:
            await self.next()

    async def until_reason(self, part):
        """Take messages until some finding says this."""
        while not any(part in each.reason for each in self.findings):
            await self.next()


@asynccontextmanager
async def serving(path, *, asked=False):
    """The source of a folder, running; `asked`: intake has asked for everything before."""
    async with living(*plan_sources(Settings(config=str(path))), asked=asked) as reception:
        yield reception


@asynccontextmanager
async def living(source, *, asked=False):
    """One life of the actor of a source."""
    reception = Reception()
    if asked:
        reception.inbox.post(ResendAll())
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(file_source.run, reception.inbox, intake=reception.mailbox, source=source))
        yield reception
        nursery.cancel_scope.cancel()
