"""Two answers compared, resource by resource and field by field, and the differences counted by kind."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"

KINDS = ("clusters", "endpoints", "listeners", "routes")
"""Kinds of resources that are compared, by their names in the answers."""

NEWER = frozenset({"no_context_propagation", "internal_address_config", "budget_interval"})
"""Fields newer than the messages that this side can read."""


class Verdict(StrEnum):
    """How a resource compares."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Difference:
    """A place in a resource, and what stands there on each side; None: nothing."""

    path: str
    expected: Json
    found: Json

    @property
    def pattern(self) -> str:
        """The place without numbers, so that like differences count together."""
        return re.sub(r"\[\d+\]", "[]", self.path)


@dataclass(frozen=True, slots=True)
class Row:
    """One resource of one proxy."""

    proxy: str
    kind: str
    name: str
    verdict: Verdict
    differences: tuple[Difference, ...] = ()


def compare_answers(proxy: str, kind: str, expected: list[dict], found: list[dict]) -> Iterator[Row]:
    """One row for each name on either side."""
    left, right = _by_name(expected), _by_name(found)
    for name in sorted(left.keys() | right.keys()):
        if name not in right:
            yield Row(proxy, kind, name, Verdict.MISSING)
        elif name not in left:
            yield Row(proxy, kind, name, Verdict.EXTRA)
        else:
            differences = tuple(differ(left[name], right[name]))
            yield Row(proxy, kind, name, Verdict.DIFFERS if differences else Verdict.EQUAL, differences)


def _by_name(resources: list[dict]) -> dict[str, dict]:
    return {resource.get("name") or resource.get("cluster_name", ""): resource for resource in resources}


def differ(expected: Json, found: Json, path: str = "") -> Iterator[Difference]:
    """Where two values differ. Lists of different length differ as a whole."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in sorted((expected.keys() | found.keys()) - NEWER):
            if key in expected and key in found:
                yield from differ(expected[key], found[key], f"{path}.{key}")
            else:
                yield Difference(f"{path}.{key}", expected.get(key), found.get(key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differ(left, right, f"{path}[{index}]")
    elif expected != found:
        yield Difference(path, expected, found)


def without_tls(value: Json) -> Json:
    """A copy without what makes a cluster or endpoint use TLS."""
    return _rewritten(value, lambda key: key not in _TLS)


_TLS = frozenset({"transport_socket", "transport_socket_matches", "envoy.transport_socket_match", "auto_sni"})


def _rewritten(value: Json, keep: Callable[[str], bool]) -> Json:
    if isinstance(value, Mapping):
        return {key: _rewritten(item, keep) for key, item in value.items() if keep(key)}
    return [_rewritten(item, keep) for item in value] if isinstance(value, list) else value


def order_free(value: Json) -> Json:
    """A copy in which the endpoints of a locality, which are a set, stand in one order."""
    if isinstance(value, Mapping):
        copy = {key: order_free(item) for key, item in value.items()}
        if isinstance(copy.get("lb_endpoints"), list):
            copy["lb_endpoints"].sort(key=lambda item: json.dumps(item.get("endpoint", {}), sort_keys=True))
        return copy
    return [order_free(item) for item in value] if isinstance(value, list) else value


def without_made_up_keys(value: Json, given: str) -> Json:
    """A copy in which a key set that stands in for one that could not be fetched is told only as such: any key will do.

    It is one with a modulus that is not part of what was `given`.
    """
    if isinstance(value, Mapping):
        return {
            key: "made up" if key == "inline_string" and _is_made_up(item, given) else without_made_up_keys(item, given)
            for key, item in value.items()
        }
    return [without_made_up_keys(item, given) for item in value] if isinstance(value, list) else value


def _is_made_up(text: Json, given: str) -> bool:
    if not isinstance(text, str) or '"keys"' not in text:
        return False
    return any(key.get("n", "") not in given for key in json.loads(text)["keys"])


@dataclass(slots=True)
class Tally:
    """Counts of a family."""

    cases: int = 0
    equal_cases: int = 0
    resources: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)

    def add(self, rows: list[Row]) -> None:
        """Count a case."""
        self.cases += 1
        self.equal_cases += all(row.verdict is Verdict.EQUAL for row in rows)
        self.resources.update(row.kind for row in rows)
        self.equal.update(row.kind for row in rows if row.verdict is Verdict.EQUAL)
