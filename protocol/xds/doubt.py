"""What a client may not have got right: the responses that it has not acknowledged, and what it refused of them.

Theory. A NACK changes nothing at once (xds-server.md §6.13: it triggers no resend), but it leaves the watch in doubt.
The client may have refused the response whole or applied the good half of it, and responses before it may not have been
acknowledged either: of each name in `unsettled`, the names told since the last ACK, it may hold any state. So the next
response that has something new to say tells of all these names again, and when that is acknowledged the client is
whole.

All but what was refused for itself: to send that again with the same bytes would spoil every response to come, and what
is unsettled would grow for ever. It is told again when its bytes change or when the client asks for it. Which one that
is the client may say: of clusters and listeners Envoy writes `NAME: reason`, and goes on with all the others, so that
nothing is left in doubt; nor is anything if there was only one name. Where it says nothing, all that it refuses a
second time is taken for refused.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from protocol.xds.resources import ResourceSet

NO_NAMES: frozenset[str] = frozenset()
_NO_VERSIONS: Mapping[str, str] = MappingProxyType({})

TOLD_APART = 16
"""Responses whose names are remembered apart until their ACK; small sets are cheaper than one that is ever rebuilt."""


class Doubt(NamedTuple):
    """`unsettled`: names in the responses since the last ACK, a set for each. `nacked`: a NACK came and no response
    since has made up for it. `suspected`: what was unsettled at the last NACK, with versions; `refused`: what was
    refused twice, with the version that was.
    """

    unsettled: tuple[frozenset[str], ...] = ()
    nacked: bool = False
    suspected: Mapping[str, str] = _NO_VERSIONS
    refused: Mapping[str, str] = _NO_VERSIONS

    @property
    def names(self) -> frozenset[str]:
        """All names that are unsettled."""
        return self.unsettled[0] if len(self.unsettled) == 1 else NO_NAMES.union(*self.unsettled)

    def told(self, names: tuple[frozenset[str], ...], *, whole: bool) -> Doubt:
        """After a response that told of these names; `whole`: of all that was in doubt, if anything was."""
        if self is CERTAIN:
            return Doubt(names) if names else self
        if not names and not (whole and self.nacked):
            return self
        unsettled = (*self.unsettled, *(each for each in names if not _is_among(each, self.unsettled)))
        gathered = unsettled if len(unsettled) <= TOLD_APART else (NO_NAMES.union(*unsettled),)
        return self._replace(unsettled=gathered, nacked=self.nacked and not whole)

    def settled(self) -> Doubt:
        """After an ACK of the last response. If that did not make up for a NACK, the doubt remains."""
        return self if self.nacked else CERTAIN

    def rejected(self, words: str, sent: ResourceSet, *, latest: bool) -> Doubt:
        """After a NACK with these words. `sent`: the set that the last response brought; `latest`: it is that one which
        was refused. What an older one held is not known any more, so nothing is blamed for it.
        """
        if not latest or self.nacked:
            return self._replace(nacked=True)
        names = self.names
        blamed = names if len(names) == 1 else names.intersection(_blamed(words))
        if any(sent.get(name) for name in blamed):
            return CERTAIN
        versions = self._versions(names, sent)
        twice = {name: version for name, version in self.suspected.items() if versions.get(name) == version}
        return self._replace(nacked=True, suspected=versions, refused={**self.refused, **twice})

    def again(self, resources: ResourceSet) -> tuple[frozenset[str], frozenset[str]]:
        """Of what is unsettled: the names to tell again with what they are now, and those that are no more."""
        names = self.names
        defined = NO_NAMES.union(*(names & part.names for part in resources.parts))
        same = (name for name, version in self.refused.items() if _has(resources, name, version))
        return defined.difference(same), names - defined

    def _versions(self, names: frozenset[str], sent: ResourceSet) -> dict[str, str]:
        """The versions of these names, which are all that are unsettled: mostly whole parts, whose sets were noted."""
        versions: dict[str, str] = {}
        for part in sent.parts:
            if _is_among(part.names, self.unsettled):
                versions |= {name: one.version for name, one in part.resources.items()}
            else:
                versions |= {name: one.version for name, one in part.resources.items() if name in names}
        return versions


def _is_among(names: frozenset[str], others: tuple[frozenset[str], ...]) -> bool:
    """Whether this very set is one of them: a part's is told again and again."""
    return any(names is each for each in others)


def _has(resources: ResourceSet, name: str, version: str) -> bool:
    resource = resources.get(name)
    return resource is not None and resource.version == version


def _blamed(words: str) -> Iterator[str]:
    """The words with a colon behind them: among them the names that a client blames (`NAME: reason`)."""
    return (word[:-1] for word in words.split() if word.endswith(":"))


CERTAIN = Doubt()
"""The client has acknowledged everything."""
