"""The rules of a resource type, as data. This package knows no meanings: whoever uses a session passes such a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.xds.resources import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRules:
    """How one type behaves on a stream (xds-server.md §6.1 to §6.11).

    `wildcard`: the client gets all resources whatever it names. `complete`: a state-of-the-world response holds all
    that the client is to have, so that leaving out is removing (CDS, LDS). `follows`: resources of this type are
    due again, whatever their bytes, when the resource of that type which they belong to was sent changed (EDS
    follows CDS): the one of the same name, unless `owner` tells its name from theirs.
    `placeholder` builds what answers a name that nothing defines; None: such a name stays unanswered (state of the
    world) or is reported removed (delta). `removals`: whether a delta client may be told that a name is gone or unknown
    (not so for ECDS and SDS, §6.11 items 4 and 7). `answers_empty`: a request of which nothing comes is answered all
    the same, by a response without resources (ECDS, §6.7 item 3).
    """

    type_url: str
    short: str
    wildcard: bool = False
    complete: bool = False
    follows: str | None = None
    owner: Callable[[str], str] | None = None
    placeholder: Callable[[str], Resource] | None = None
    removals: bool = True
    answers_empty: bool = False


TypeTable = Mapping[str, TypeRules]
"""Type URL -> rules, in the order of a push (§6.6). A type URL that is not in it gets no answer."""
