"""Rules of an HTTPRoute as routes of a VirtualService (networking.md §5.11). One route for each match of each rule.

Nothing is known here of parents, and nothing of other HTTPRoutes. A rule that asks for something that is not supported
cannot be left out by itself, for its requests would then go where a later rule sends them: the whole route is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.common import Destination, Exact, Percent, PortSelector, Prefix, Regex
from trierarch.config.http_route import (
    Cors,
    PathMatchType,
    PathModifierType,
    RequestHeaderModifier,
    RequestMirror,
    RequestRedirect,
    ResponseHeaderModifier,
    RouteMatch,
    UrlRewrite,
    ValueMatchType,
)
from trierarch.config.virtual_service import (
    CorsPolicy,
    HeaderOperations,
    Headers,
    HttpDirectResponse,
    HttpMatch,
    HttpMirror,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    HttpRoute,
    HttpRouteDestination,
    RedirectPort,
    RedirectPortSelection,
    RegexRewrite,
    UnmatchedPreflights,
)
from trierarch.push.registries import service_hostname

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trierarch.config.common import StringMatch
    from trierarch.config.http_route import (
        BackendReference,
        BackendShare,
        HeaderModifier,
        HttpRouteSpec,
        PathModifier,
        RouteFilter,
        RouteRule,
        ValueMatch,
    )
    from trierarch.config.objects import ConfigObject

ISTIO_NETWORKING = "networking.istio.io"
NO_BACKEND = HttpDirectResponse(status=500)
"""What answers where no backend may get a request."""

_ATTEMPTS = 2
_DOWN_TO_THE_ROOT = "/"
_PATH_RANKS = {PathMatchType.EXACT: 0, PathMatchType.PATH_PREFIX: 1, PathMatchType.REGULAR_EXPRESSION: 2}
_ANY_PATH = RouteMatch()


class Unsupported(Exception):  # noqa: N818 - says what is unsupported, as `Malformed` does what is malformed
    """Something that an HTTPRoute asks for and that cannot be done: where it stands, and why not."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class Precedence(NamedTuple):
    """Sorts the routes of a host (Gateway API): the more specific first, then the older, then as they were written."""

    path_rank: int
    path_length: int
    without_method: bool
    headers: int
    query_params: int
    age: tuple[float, str, str]
    place: tuple[int, int]


class Translated(NamedTuple):
    """A route and its place among others."""

    precedence: Precedence
    route: HttpRoute


def translate_rules(source: ConfigObject[HttpRouteSpec], port: int, domain: str) -> tuple[Translated, ...]:
    """The routes of all rules, for requests to a port of the parent (0: any). Raises `Unsupported`."""
    return tuple(_translate(source, port, domain))


def _translate(source: ConfigObject[HttpRouteSpec], port: int, domain: str) -> Iterator[Translated]:
    namespace = source.key.namespace
    for number, rule in enumerate(source.spec.rules):
        name = rule.name or f"{namespace}.{source.key.name}.{number}"
        place = _Place(f"spec.rules[{number}]", namespace, domain)
        for index, match in enumerate(rule.matches or (None,)):
            route = place.route(rule, name, match, port)
            yield Translated(_precedence(match or _ANY_PATH, source.age, (number, index)), route)


def _precedence(match: RouteMatch, age: tuple[float, str, str], place: tuple[int, int]) -> Precedence:
    rank = _PATH_RANKS[match.path.type] if match.path else _PATH_RANKS[PathMatchType.PATH_PREFIX]
    length = len(match.path.value) if match.path else 1
    return Precedence(rank, -length, not match.method, -len(match.headers), -len(match.query_params), age, place)


class _Place(NamedTuple):
    """Where a rule stands: its path in the object, the namespace that short names mean, the domain of services."""

    path: str
    namespace: str
    domain: str

    def route(self, rule: RouteRule, name: str, match: RouteMatch | None, port: int) -> HttpRoute:
        """The rule for one of its matches."""
        draft = _Filters(self, match)
        for index, each in enumerate(rule.filters):
            draft.add(each, f"{self.path}.filters[{index}]")
        shares = () if draft.redirect is not None else tuple(self._shares(rule.backend_refs))
        request, backend = rule.timeouts.request, rule.timeouts.backend_request
        return HttpRoute(
            name=name,
            match=() if match is None and not port else (_translate_match(match or _ANY_PATH, port),),
            route=shares,
            redirect=draft.redirect,
            direct_response=None if shares or draft.redirect is not None else NO_BACKEND,
            rewrite=draft.rewrite,
            timeout=request if backend is None or rule.retry is not None else backend,
            retries=_translate_retry(rule),
            mirrors=tuple(draft.mirrors),
            cors_policy=draft.cors,
            headers=draft.headers,
        )

    def _shares(self, backends: Sequence[BackendShare]) -> Iterator[HttpRouteDestination]:
        """The backends that get requests; none if their weights are zero."""
        if not any(backend.weight for backend in backends):
            return
        for index, backend in enumerate(backends):
            path = f"{self.path}.backendRefs[{index}]"
            draft = _Filters(self, None)
            for number, each in enumerate(backend.filters):
                draft.add(each, f"{path}.filters[{number}]")
            destination = self.destination(backend, path)
            yield HttpRouteDestination(destination=destination, weight=backend.weight, headers=draft.headers)

    def destination(self, backend: BackendReference, path: str) -> Destination:
        """The host that a backend means."""
        if not backend.port:
            raise Unsupported(f"{path}.port", "a backend needs a port")
        port = PortSelector(number=backend.port)
        match backend.group, backend.kind:
            case "", "Service":
                host = service_hostname(backend.name, backend.namespace or self.namespace, self.domain)
                return Destination(host=host, port=port)
            case group, "Hostname" if group == ISTIO_NETWORKING:
                return Destination(host=backend.name, port=port)
            case group, kind:
                raise Unsupported(path, f"a backend of kind {kind} of {group or 'the core'} is not known")


class _Filters:
    """What the filters of a rule add up to."""

    def __init__(self, place: _Place, match: RouteMatch | None) -> None:
        self._place = place
        self._prefix = match.path.value if match and match.path else "/"
        self._request: HeaderOperations | None = None
        self._response: HeaderOperations | None = None
        self.redirect: HttpRedirect | None = None
        self.rewrite: HttpRewrite | None = None
        self.cors: CorsPolicy | None = None
        self.mirrors: list[HttpMirror] = []

    @property
    def headers(self) -> Headers | None:
        """The changes to headers."""
        if self._request is None and self._response is None:
            return None
        return Headers(request=self._request, response=self._response)

    def add(self, step: RouteFilter, path: str) -> None:
        """Take a filter into account. Raises `Unsupported`."""
        match step.action:
            case RequestHeaderModifier() as modifier:
                self._request = _translate_headers(modifier)
            case ResponseHeaderModifier() as modifier:
                self._response = _translate_headers(modifier)
            case RequestRedirect() as redirect:
                self.redirect = _translate_redirect(redirect)
            case UrlRewrite() as rewrite:
                self.rewrite = _translate_rewrite(rewrite, self._prefix)
            case RequestMirror() as mirror:
                destination = self._place.destination(mirror.backend_ref, f"{path}.requestMirror.backendRef")
                self.mirrors.append(HttpMirror(destination=destination, percentage=_share(mirror)))
            case Cors() as cors:
                self.cors = _translate_cors(cors)
            case None:
                raise Unsupported(path, f"a filter of type {step.type} is not known")


def _translate_match(match: RouteMatch, port: int) -> HttpMatch:
    return HttpMatch(
        uri=_translate_path(match) if match.path else None,
        method=Exact(match.method) if match.method else None,
        headers=dict(map(_translate_value, match.headers)),
        query_params=dict(map(_translate_value, match.query_params)),
        port=port,
    )


def _translate_path(match: RouteMatch) -> StringMatch | None:
    """A prefix is of whole segments, so a slash at its end says nothing."""
    if match.path is None:
        return None
    value = match.path.value
    match match.path.type:
        case PathMatchType.EXACT:
            return Exact(value)
        case PathMatchType.PATH_PREFIX:
            return Prefix(value.rstrip("/") or _DOWN_TO_THE_ROOT)
        case PathMatchType.REGULAR_EXPRESSION:
            return Regex(value)


def _translate_value(match: ValueMatch) -> tuple[str, StringMatch]:
    return match.name, Exact(match.value) if match.type is ValueMatchType.EXACT else Regex(match.value)


def _translate_retry(rule: RouteRule) -> HttpRetry:
    """Without a policy of its own a rule is tried again for failed connections, as VirtualServices are."""
    retry = rule.retry
    if retry is None:
        return HttpRetry(attempts=_ATTEMPTS)
    return HttpRetry(
        attempts=_ATTEMPTS if retry.attempts is None else retry.attempts,
        per_try_timeout=rule.timeouts.backend_request,
        retry_on=",".join(map(str, retry.codes)),
        backoff=retry.backoff,
    )


def _translate_headers(modifier: HeaderModifier) -> HeaderOperations:
    return HeaderOperations(
        set={each.name: each.value for each in modifier.set},
        add={each.name: each.value for each in modifier.add},
        remove=modifier.remove,
    )


def _translate_redirect(redirect: RequestRedirect) -> HttpRedirect:
    path = redirect.path
    full = path is not None and path.type is PathModifierType.FULL_PATH
    port: RedirectPort | RedirectPortSelection = RedirectPort(redirect.port)
    if not redirect.port:
        selection = RedirectPortSelection
        port = selection.FROM_PROTOCOL_DEFAULT if redirect.scheme else selection.FROM_REQUEST_PORT
    return HttpRedirect(
        uri=path.replace_full_path if path and full else "",
        prefix_rewrite=path.replace_prefix_match if path and not full else "",
        authority=redirect.hostname,
        target_port=port,
        scheme=redirect.scheme,
        redirect_code=redirect.status_code,
    )


def _translate_rewrite(rewrite: UrlRewrite, prefix: str) -> HttpRewrite:
    if rewrite.path is None:
        return HttpRewrite(authority=rewrite.hostname)
    if rewrite.path.type is PathModifierType.FULL_PATH:
        whole = RegexRewrite(match="/.*", rewrite=rewrite.path.replace_full_path)
        return HttpRewrite(authority=rewrite.hostname, uri_regex_rewrite=whole)
    return _rewrite_prefix(rewrite.hostname, rewrite.path, prefix)


def _rewrite_prefix(authority: str, path: PathModifier, prefix: str) -> HttpRewrite:
    """To put "/" in place of "/a" would make "//b" of "/a/b": then the slash that follows goes too."""
    replacement = path.replace_prefix_match.rstrip("/")
    if replacement:
        return HttpRewrite(authority=authority, uri=replacement)
    stripped = RegexRewrite(match=f"^{re.escape(prefix.rstrip('/'))}(/?)(.*)", rewrite="/\\2")
    return HttpRewrite(authority=authority, uri_regex_rewrite=stripped)


def _share(mirror: RequestMirror) -> Percent | None:
    if mirror.fraction is not None:
        return Percent(value=100 * mirror.fraction.numerator / mirror.fraction.denominator)
    return None if mirror.percent is None else Percent(value=mirror.percent)


def _translate_cors(cors: Cors) -> CorsPolicy:
    return CorsPolicy(
        allow_origins=tuple(map(_translate_origin, cors.allow_origins)),
        allow_methods=cors.allow_methods,
        allow_headers=cors.allow_headers,
        expose_headers=cors.expose_headers,
        allow_credentials=cors.allow_credentials,
        max_age=float(cors.max_age),
        unmatched_preflights=UnmatchedPreflights.IGNORE,
    )


def _translate_origin(origin: str) -> StringMatch:
    """An asterisk stands for anything."""
    parts = origin.split("*")
    return Regex(".*".join(map(re.escape, parts))) if len(parts) > 1 else Exact(origin)
