"""The parts that there are: found by what they are made from, shared by what they hold.

Two ways lead to one object. Equal inputs give the part that was made from them, in whatever snapshot or for whatever
view: nothing is planned again. And other inputs of which the same resources come give the part that holds these: sets
of successive snapshots, and of different views, then differ only in the parts that really differ, which is seen by
identity.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from protocol.xds.resources import Part, Resource, ResourceSet, build_resource, tie_chunks

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from protocol.xds.resources import Chunk


INPUTS = 256
"""So many inputs of which the same part came are remembered. A part may live as long as the process, while each change
makes other inputs of it, which hold what they were made from. More than namespaces ask at a time need not be.
"""


class PartCache:
    """The parts, sets and joined resources that somebody holds: a client that was sent them, or an outlook.

    So the cache needs no list of views that are in use, and keeps nothing of a view that has gone.
    """

    __slots__ = ("_by_content", "_by_inputs", "_joined", "_made_from", "_sets", "_tied")

    def __init__(self) -> None:
        self._by_inputs: WeakValueDictionary[Hashable, Part] = WeakValueDictionary()
        self._made_from: WeakKeyDictionary[Part, deque[Hashable]] = WeakKeyDictionary()
        self._by_content: WeakValueDictionary[tuple[str, str], Part] = WeakValueDictionary()
        self._sets: WeakValueDictionary[tuple[Part, ...], ResourceSet] = WeakValueDictionary()
        self._joined: WeakValueDictionary[tuple[str, tuple[bytes, ...]], Resource] = WeakValueDictionary()
        self._tied: WeakValueDictionary[tuple[str, tuple[Chunk, ...]], Resource] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_content)

    def find(self, inputs: Hashable) -> Part | None:
        """The part that was made from these inputs, if it is still there. Of None nothing can be known."""
        return None if inputs is None else self._by_inputs.get(inputs)

    def settle(self, name: str, inputs: Hashable, resources: Iterable[Resource]) -> Part:
        """The part of these resources, which have different names: one that holds the same, in that order, or new."""
        made = Part(resources)
        part = self._by_content.setdefault((name, made.version), made)
        if inputs is not None:
            self._remember(inputs, part)
        return part

    def _remember(self, inputs: Hashable, part: Part) -> None:
        made_from = self._made_from.setdefault(part, deque())
        made_from.append(inputs)
        self._by_inputs[inputs] = part
        if len(made_from) > INPUTS:
            self._by_inputs.pop(made_from.popleft(), None)

    def chain(self, parts: tuple[Part, ...]) -> ResourceSet:
        """The one set made of these parts. Of two resources with one name the first is kept, as within a part."""
        found = self._sets.get(parts)
        if found is None:
            found = self._sets[parts] = ResourceSet(*_apart(parts))
        return found

    def join(self, name: str, pieces: tuple[bytes, ...]) -> Resource:
        """The one resource of this name with a body of these pieces."""
        key = (name, pieces)
        found = self._joined.get(key)
        if found is None:
            found = self._joined[key] = build_resource(name, b"".join(pieces))
        return found

    def tie(self, name: str, chunks: tuple[Chunk, ...]) -> Resource:
        """The one resource of this name with a body of these chunks."""
        key = (name, chunks)
        found = self._tied.get(key)
        if found is None:
            found = self._tied[key] = tie_chunks(name, chunks)
        return found


def _apart(parts: tuple[Part, ...]) -> Iterator[Part]:
    """The parts, each without what one before it has a name of: a Sidecar may bind what is listened on anyway.

    Whether two sets have something in common the smaller tells: no union of thousands of names is made for that.
    """
    for index, part in enumerate(parts):
        earlier = [each.names for each in parts[:index]]
        if all(map(part.names.isdisjoint, earlier)):
            yield part
        else:
            taken = frozenset().union(*earlier)
            yield Part(each for name, each in part.resources.items() if name not in taken)
