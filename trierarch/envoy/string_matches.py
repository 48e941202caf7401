"""String matches of users as Envoy's, for headers, claims, query parameters and origins alike."""

from __future__ import annotations

from protocol.proto.envoy.type.matcher.v3 import RegexMatcher, StringMatcher
from trierarch.config.common import Exact, Prefix, Regex


def build_string_matcher(match: Exact | Prefix | Regex) -> StringMatcher:
    """A match of a whole string."""
    match match:
        case Exact(value):
            return StringMatcher(exact=value)
        case Prefix(value):
            return StringMatcher(prefix=value)
        case Regex(value):
            return StringMatcher(safe_regex=RegexMatcher(regex=value))
