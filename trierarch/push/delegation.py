"""Delegates: the routes of one VirtualService inside another (networking.md §5.9, xds-server.md §8.3.4).

A route of a root that names a delegate becomes the delegate's routes, each narrowed to what the root's route matches.
A delegate's route that can never meet the root's conditions is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trierarch.config.common import Exact, Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.common import AnyValue, Regex
    from trierarch.config.virtual_service import HttpMatch, HttpRoute

    StringMatch = Exact | Prefix | Regex | AnyValue


def merged_routes(root: HttpRoute, delegate: tuple[HttpRoute, ...]) -> Iterator[HttpRoute]:
    """The delegate's routes as the root's route admits them, in order."""
    for leaf in delegate:
        matches = _merged_matches(root.match, leaf.match)
        if matches is not None:
            yield _merged_route(root, leaf, matches)


def _merged_route(root: HttpRoute, leaf: HttpRoute, matches: tuple[HttpMatch, ...]) -> HttpRoute:
    """The leaf's route; what it leaves open is the root's."""
    return replace(
        leaf,
        name=_joined(root.name, leaf.name),
        match=matches,
        rewrite=leaf.rewrite or root.rewrite,
        direct_response=leaf.direct_response or root.direct_response,
        timeout=root.timeout if leaf.timeout is None else leaf.timeout,
        retries=leaf.retries or root.retries,
        fault=leaf.fault or root.fault,
        mirror=leaf.mirror or root.mirror,
        mirror_percent=root.mirror_percent if leaf.mirror_percent is None else leaf.mirror_percent,
        mirror_percentage=leaf.mirror_percentage or root.mirror_percentage,
        mirrors=leaf.mirrors or root.mirrors,
        cors_policy=leaf.cors_policy or root.cors_policy,
        headers=leaf.headers or root.headers,
    )


def _joined(root: str, leaf: str) -> str:
    return f"{root}-{leaf}" if root and leaf else root or leaf


def _merged_matches(root: tuple[HttpMatch, ...], leaf: tuple[HttpMatch, ...]) -> tuple[HttpMatch, ...] | None:
    """All pairs that can hold together; None if some match of the leaf fits none of the root's."""
    if not root or not leaf:
        return leaf or root
    merged: list[HttpMatch] = []
    for inner in leaf:
        fitting = [outer for outer in root if not _conflict(outer, inner)]
        if not fitting:
            return None
        merged.extend(_merged_match(outer, inner) for outer in fitting)
    return tuple(merged)


def _merged_match(root: HttpMatch, leaf: HttpMatch) -> HttpMatch:
    return replace(
        leaf,
        name=_joined(root.name, leaf.name),
        uri=leaf.uri or root.uri,
        scheme=leaf.scheme or root.scheme,
        method=leaf.method or root.method,
        authority=leaf.authority or root.authority,
        headers={**root.headers, **leaf.headers},
        without_headers={**root.without_headers, **leaf.without_headers},
        query_params={**root.query_params, **leaf.query_params},
        port=leaf.port or root.port,
        source_labels={**root.source_labels, **leaf.source_labels},
        source_namespace=leaf.source_namespace or root.source_namespace,
        gateways=leaf.gateways or root.gateways,
        stat_prefix=leaf.stat_prefix or root.stat_prefix,
    )


def _conflict(root: HttpMatch, leaf: HttpMatch) -> bool:
    """Whether no request meets both, or the leaf would reach beyond the root."""
    labels = root.source_labels
    return (
        any(_strings_conflict(outer, inner) for outer, inner in _string_pairs(root, leaf))
        or root.ignore_uri_case != leaf.ignore_uri_case
        or (root.port != 0 and leaf.port != 0 and root.port != leaf.port)
        or (root.source_namespace != "" and root.source_namespace != leaf.source_namespace)
        or any(labels.get(name, value) != value for name, value in leaf.source_labels.items())
        or bool(root.gateways and leaf.gateways and not set(leaf.gateways) <= set(root.gateways))
    )


def _string_pairs(root: HttpMatch, leaf: HttpMatch) -> Iterator[tuple[StringMatch, StringMatch]]:
    """The conditions on the same string that both sides have."""
    single = (
        (root.uri, leaf.uri),
        (root.scheme, leaf.scheme),
        (root.method, leaf.method),
        (root.authority, leaf.authority),
    )
    yield from ((outer, inner) for outer, inner in single if outer is not None and inner is not None)
    yield from _keyed_pairs(root.headers, leaf.headers)
    yield from _keyed_pairs(root.without_headers, leaf.without_headers)
    yield from _keyed_pairs(root.query_params, leaf.query_params)


def _keyed_pairs(
    root: Mapping[str, StringMatch], leaf: Mapping[str, StringMatch]
) -> Iterator[tuple[StringMatch, StringMatch]]:
    return ((root[key], inner) for key, inner in leaf.items() if key in root)


def _strings_conflict(root: StringMatch, leaf: StringMatch) -> bool:
    """Only exact in the same exact, and exact or prefix in a prefix of it, are known to fit."""
    match root, leaf:
        case Exact(outer), Exact(inner):
            return outer != inner
        case Prefix(outer), Exact(inner) | Prefix(inner):
            return not inner.startswith(outer)
        case _:
            return True
