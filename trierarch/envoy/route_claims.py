"""Routes that ask for claims: `@request.auth.claims...` in place of a header's name (networking.md §5.5).

The claims are those of a token that the same proxy has accepted, so only gateways and waypoints have any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.type.matcher.v3 import MetadataMatcher, ValueMatcher
from trierarch.config.common import AnyValue
from trierarch.config.virtual_service import parse_claim
from trierarch.envoy.rbac_values import build_any_of, build_claim, build_member
from trierarch.envoy.string_matches import build_string_matcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.config.common import StringMatch
    from trierarch.config.virtual_service import HttpMatch


def build_claim_matches(match: HttpMatch) -> list[MetadataMatcher]:
    """The conditions of a match that are about claims, by name."""
    found = [*_asked(match.headers, invert=False), *_asked(match.without_headers, invert=True)]
    return [matcher for _, matcher in sorted(found, key=lambda each: each[0])]


def _asked(headers: Mapping[str, StringMatch], *, invert: bool) -> Iterator[tuple[str, MetadataMatcher]]:
    for name, value in headers.items():
        path = parse_claim(name)
        if path is not None:
            matcher = build_claim(path, _build_value(value))
            matcher.invert = invert
            yield name, matcher


def _build_value(value: StringMatch) -> ValueMatcher:
    """A string that matches, or a list with one."""
    if isinstance(value, AnyValue):
        return ValueMatcher(present_match=True)
    text = ValueMatcher(string_match=build_string_matcher(value))
    return build_any_of([build_member(text), text])
