"""Runs: the stretches of consecutive virtual hosts that route configurations are put together from.

A changed virtual host is another run, and all the others keep theirs, with their bytes. Most virtual hosts are the same
for all namespaces, and so are the runs that have no others. Where a run ends is settled in `host_names.py`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING
from weakref import ref

from protocol.xds.resources import Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trierarch.envoy.virtual_hosts import VirtualHostInputs
    from trierarch.push.steps import Steps


class Run:
    """Consecutive virtual hosts, compared by identity. They are encoded as long as a resource has them."""

    __slots__ = ("_chunk", "hosts")

    def __init__(self, hosts: tuple[VirtualHostInputs, ...]) -> None:
        self.hosts = hosts
        self._chunk: Callable[[], Chunk | None] = _nowhere

    @property
    def chunk(self) -> Chunk | None:
        """Their fields of a route configuration, if they are encoded."""
        return self._chunk()

    def encode(self) -> Steps[Chunk]:
        """The same, if they are not yet."""
        found = self._chunk()
        if found is None:
            for host in [each for each in self.hosts if not each.is_encoded]:
                host.encoded  # noqa: B018 - it is kept
                yield
            found = Chunk(b"".join([host.encoded for host in self.hosts]))
            self._chunk = ref(found)
        return found


def _nowhere() -> None:
    return None


def hosts_of(runs: Iterable[Run]) -> Iterator[VirtualHostInputs]:
    """The virtual hosts, one after the other."""
    return chain.from_iterable([run.hosts for run in runs])


def exchange(inputs: tuple[Run, tuple[tuple[int, VirtualHostInputs], ...]]) -> Run:
    """A run with other virtual hosts in these places of it."""
    run, others = inputs
    hosts = list(run.hosts)
    for place, host in others:
        hosts[place] = host
    return Run(tuple(hosts))
