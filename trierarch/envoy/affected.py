"""What `trierarch.push.scope` says of types, in type URLs; and whether what they hold is much to send."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from trierarch.envoy.types import TYPE_RULES
from trierarch.push.cost import push_size
from trierarch.push.queue import LARGE
from trierarch.push.scope import affected_types, types_by_themselves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.xds.resources import ResourceSet
    from trierarch.push.request import PushRequest
    from trierarch.push.view import View

_URLS = {rules.short: url for url, rules in TYPE_RULES.items()}


def affected_urls(request: PushRequest, view: View) -> frozenset[str]:
    """The types in which a request may change something for a view that it affects."""
    return _urls(affected_types(request, view))


def urls_by_themselves(request: PushRequest, view: View) -> frozenset[str]:
    """Those of them that it changes not only by changing what is in reach."""
    return _urls(types_by_themselves(request, view))


@lru_cache(maxsize=64)
def _urls(shorts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_URLS[short] for short in shorts if short in _URLS)


def is_large(
    before: Mapping[str, ResourceSet], after: Mapping[str, ResourceSet], types: frozenset[str], *, delta: bool
) -> bool:
    """Whether a push of these types from one state of a view to another may well need a credit."""
    sizes = (
        push_size(before.get(url), after[url], whole=TYPE_RULES[url].complete and not delta, enough=LARGE)
        for url in types
        if url in after
    )
    return sum(sizes) >= LARGE
