"""Single values of authorization policies as Envoy's matchers (networking.md §6.3).

In a value a wildcard may stand at the beginning or at the end; alone it means that there must be something. How values
are joined to rules is in `rbac_rules.py`.
"""

from __future__ import annotations

import re

from protocol.proto.envoy.config.core.v3 import TypedExtensionConfig
from protocol.proto.envoy.config.route.v3 import HeaderMatcher
from protocol.proto.envoy.extensions.path.match.uri_template.v3 import UriTemplateMatchConfig
from protocol.proto.envoy.type.matcher.v3 import (
    ListMatcher,
    MetadataMatcher,
    MetadataMatcherPathSegment,
    OrMatcher,
    PathMatcher,
    RegexMatcher,
    StringMatcher,
    ValueMatcher,
)
from trierarch.config.authorization_policy import ALL_SEGMENTS, ONE_SEGMENT
from trierarch.envoy.well_known_types import pack

JWT_FILTER = "envoy.filters.http.jwt_authn"
PAYLOAD = "payload"
"""Where the claims of a token that was accepted are kept."""

SPIFFE = "spiffe://"
_SOMETHING = ".+"
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def quote(text: str) -> str:
    """A regular expression of RE2 for exactly this text."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def build_regex(expression: str) -> StringMatcher:
    """A matcher for whole strings."""
    return StringMatcher(safe_regex=RegexMatcher(regex=expression))


def build_string(value: str, before: str = "") -> StringMatcher:
    """A value with its wildcard, after a fixed beginning."""
    if value == "*":
        return build_regex(_SOMETHING)
    if value.startswith("*"):
        end = value[1:]
        return build_regex(f"{before}.*{quote(end)}") if before else StringMatcher(suffix=end)
    if value.endswith("*"):
        return StringMatcher(prefix=before + value[:-1])
    return StringMatcher(exact=before + value)


# --- identities ------------------------------------------------------------------------------------------------------
def build_principal(principal: str) -> StringMatcher:
    """`TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT` as it stands in certificates."""
    return build_string(principal, SPIFFE)


def build_namespace(namespace: str) -> StringMatcher:
    """Identities of a namespace, whatever their trust domain."""
    return build_regex(f".*/ns/{_pattern(namespace, '.*')}/.*")


def build_service_account(account: str) -> StringMatcher:
    """Identities of `NAMESPACE/ACCOUNT`, whatever their trust domain, and whatever stands between and behind."""
    namespace, _, name = account.partition("/")
    return build_regex(f"{SPIFFE}.+/ns/{quote(namespace)}/(.+/|)sa/{quote(name)}(/.+)?")


def build_trust_domain(domain: str) -> StringMatcher:
    """Identities of a trust domain."""
    if domain == "*":
        return StringMatcher(prefix=SPIFFE)
    if "*" in domain:
        return build_regex(f"{SPIFFE}{_pattern(domain, '[^/]*')}/.*")
    return StringMatcher(prefix=f"{SPIFFE}{domain}/")


def _pattern(value: str, wildcard: str) -> str:
    """A regular expression in which every star is replaced."""
    return wildcard.join(map(quote, value.split("*")))


# --- requests --------------------------------------------------------------------------------------------------------
def build_header(name: str, value: str, *, ignore_case: bool = False) -> HeaderMatcher:
    """A header with this value; `*` asks only that it is there."""
    if value == "*":
        return HeaderMatcher(name=name, present_match=True)
    match = build_string(value)
    match.ignore_case = ignore_case
    return HeaderMatcher(name=name, string_match=match)


def build_path(path: str) -> PathMatcher:
    """The path without its query."""
    return PathMatcher(path=build_string(path))


def build_template(template: str) -> TypedExtensionConfig:
    """A path by its segments. It begins with a slash even if the user left that out: any other ends Envoy's process."""
    written = "/" + template.removeprefix("/").replace(ONE_SEGMENT, "*").replace(ALL_SEGMENTS, "**")
    return TypedExtensionConfig(name="uri-template", typed_config=pack(UriTemplateMatchConfig(path_template=written)))


# --- metadata --------------------------------------------------------------------------------------------------------
def build_claim(path: tuple[str, ...], value: ValueMatcher) -> MetadataMatcher:
    """A claim of the request's token, perhaps one inside others."""
    return build_metadata(JWT_FILTER, (PAYLOAD, *path), value)


def build_metadata(name: str, path: tuple[str, ...], value: ValueMatcher) -> MetadataMatcher:
    """What the filter of this name noted at a path."""
    return MetadataMatcher(filter=name, path=[MetadataMatcherPathSegment(key=key) for key in path], value=value)


def build_text(value: str) -> ValueMatcher:
    """A value that is a string."""
    return ValueMatcher(string_match=build_string(value))


def build_member(value: ValueMatcher) -> ValueMatcher:
    """A list with such a value."""
    return ValueMatcher(list_match=ListMatcher(one_of=value))


def build_any_of(values: list[ValueMatcher]) -> ValueMatcher:
    """One of several; a single one as it is."""
    return values[0] if len(values) == 1 else ValueMatcher(or_match=OrMatcher(value_matchers=values))
