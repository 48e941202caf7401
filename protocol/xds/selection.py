"""What is sent of a set: found by names, and found once for all who want the same.

Theory. A push tells a thousand clients of the same few names, most of which are in one part that all of them share,
though their sets may differ in others. So a part keeps a note of what was last selected of it by name: the same
`Selection` then, which carries what each response says of it, and which is encoded once (`wire.SharedFields`). There
is no note of a whole part, which would hold itself.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.xds.resources import Part, Resource, ResourceSet
    from protocol.xds.types import TypeRules


class Selection:
    """Whole parts, which are encoded once for everybody, and single resources beside them. Compared by identity.

    `names` are those of what is sent, as sets, most of which are shared. `unknown` are names that were asked for and
    that nothing defines.
    """

    __slots__ = ("__weakref__", "_count", "names", "parts", "resources", "unknown")

    def __init__(
        self, *, parts: tuple[Part, ...] = (), resources: tuple[Resource, ...] = (), unknown: tuple[str, ...] = ()
    ) -> None:
        self.parts = parts
        self.resources = resources
        self.unknown = unknown
        single = (frozenset([resource.name for resource in resources]),) if resources else ()
        self.names: tuple[frozenset[str], ...] = (*[part.names for part in parts], *single)
        self._count = sum(map(len, self.names))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Resource]:
        return chain(*(part.resources.values() for part in self.parts), self.resources)


def whole_parts(names: frozenset[str], resources: ResourceSet) -> tuple[Part, ...]:
    """The parts of a set of which all is named."""
    return tuple([part for part in resources.parts if part.resources and (part.names is names or part.names <= names)])


def select(names: frozenset[str], rules: TypeRules, resources: ResourceSet) -> Selection:
    """Look names up: parts that are wanted whole, the rest one by one in alphabetical order, or its placeholders."""
    parts = whole_parts(names, resources)
    if parts and sum(map(len, parts)) == len(names):
        return Selection(parts=parts)
    if not parts:
        for part in resources.parts:
            if names <= part.names:
                return _select_of(part, names)
    return _select_apart(names, parts, rules, resources)


def _select_of(part: Part, names: frozenset[str]) -> Selection:
    """Some resources of a part; the same as before if the same are wanted."""
    noted = part.selected
    if noted is None or noted[0] != names:
        resources = tuple([part.resources[name] for name in sorted(names)])
        noted = part.selected = (names, Selection(resources=resources))
    return noted[1]


def _select_apart(
    names: frozenset[str], parts: tuple[Part, ...], rules: TypeRules, resources: ResourceSet
) -> Selection:
    """These parts, and one by one all that is named beside them, wherever it is."""
    found: list[Resource] = []
    unknown: list[str] = []
    for name in sorted(names.difference(*[part.names for part in parts])):
        resource = resources.get(name)
        if resource is None and rules.placeholder is not None:
            resource = rules.placeholder(name)
        if resource is None:
            unknown.append(name)
        else:
            found.append(resource)
    return Selection(parts=parts, resources=tuple(found), unknown=tuple(unknown))
