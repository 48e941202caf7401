"""When a route of a VirtualService applies: conditions decided while planning, and Envoy's matches (§5.5).

Port, gateways and source are known of a view, so a match that names them either falls away before anything is built or
is no condition any more. All others become a RouteMatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.proto.envoy.config.route.v3 import HeaderMatcher, QueryParameterMatcher, RouteMatch
from protocol.proto.envoy.type.matcher.v3 import RegexMatcher
from trierarch.config.common import AnyValue, Exact, Prefix, Regex
from trierarch.config.virtual_service import parse_claim
from trierarch.envoy.route_claims import build_claim_matches
from trierarch.envoy.string_matches import build_string_matcher

if TYPE_CHECKING:
    from trierarch.config.common import StringMatch
    from trierarch.config.virtual_service import HttpMatch


class RouteClient(NamedTuple):
    """Who asks: through which gateway ("mesh" for sidecars), on which port, with which labels, from which namespace."""

    gateway: str
    port: int
    labels: frozenset[tuple[str, str]]
    namespace: str


def applies(match: HttpMatch, client: RouteClient) -> bool:
    """Whether the conditions that are known of a client hold. Where gateways are named, the source does not matter."""
    if match.port and match.port != client.port:
        return False
    if match.gateways:
        return client.gateway in match.gateways
    return match.source_labels.items() <= client.labels and match.source_namespace in ("", client.namespace)


def is_catch_all(match: HttpMatch | None) -> bool:
    """Whether every request meets the match, so that no route after it is ever reached."""
    if match is None:
        return True
    if match.uri not in (None, Prefix("/"), Regex(".*")):
        return False
    conditions = (match.headers, match.without_headers, match.query_params)
    return not any(conditions) and match.method is None and match.authority is None and match.scheme is None


def build_route_match(match: HttpMatch | None, *, by_segment: bool = False) -> RouteMatch:
    """Envoy's match. The order of conditions is fixed, so that equal matches have equal bytes.

    `by_segment`: a prefix is of whole segments of the path.
    """
    if match is None:
        return RouteMatch(prefix="/")
    built = RouteMatch(case_sensitive=not match.ignore_uri_case, headers=_build_headers(match))
    built.dynamic_metadata = build_claim_matches(match)
    built.query_parameters = [_build_query(name, match.query_params[name]) for name in sorted(match.query_params)]
    match match.uri:
        case Exact(path):
            built.path = path
        case Prefix(prefix) if by_segment and prefix != "/":
            built.path_separated_prefix = prefix
        case Prefix(prefix):
            built.prefix = prefix
        case Regex(expression):
            built.safe_regex = RegexMatcher(regex=expression)
        case AnyValue() | None:
            built.prefix = "/"
    return built


def path_description(match: HttpMatch | None, *, by_segment: bool = False) -> str:
    """The path as the names of operations in traces have it; a prefix of whole segments is not told."""
    match match.uri if match is not None else None:
        case Exact(value) | Regex(value):
            return value
        case Prefix(value) if not by_segment:
            return f"{value}*"
        case _:
            return "/*"


def _build_headers(match: HttpMatch) -> list[HeaderMatcher]:
    """Headers by name, then the parts of the request line, which Envoy treats as headers too."""
    named = [_build_header(name, value) for name, value in match.headers.items() if parse_claim(name) is None]
    without = match.without_headers.items()
    named += [_build_without(name, value) for name, value in without if parse_claim(name) is None]
    named.sort(key=lambda header: header.name)
    pseudo = ((":method", match.method), (":authority", match.authority), (":scheme", match.scheme))
    return named + [_build_header(name, value) for name, value in pseudo if value is not None]


def _build_header(name: str, value: StringMatch) -> HeaderMatcher:
    if isinstance(value, AnyValue):
        return HeaderMatcher(name=name, present_match=True)
    return HeaderMatcher(name=name, string_match=build_string_matcher(value))


def _build_without(name: str, value: StringMatch) -> HeaderMatcher:
    """The header must not match; one that is missing does not, which only a match of its presence says by itself."""
    header = _build_header(name, value)
    header.invert_match = True
    header.treat_missing_header_as_empty = not isinstance(value, AnyValue)
    return header


def _build_query(name: str, value: StringMatch) -> QueryParameterMatcher:
    if isinstance(value, AnyValue) or value == Prefix(""):  # Envoy takes no empty prefix
        return QueryParameterMatcher(name=name, present_match=True)
    return QueryParameterMatcher(name=name, string_match=build_string_matcher(value))
