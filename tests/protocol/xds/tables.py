"""A table of types as the control plane would pass it, and short ways to make requests and sets, for tests of sessions.

`protocol` does not look into bodies, so here a body is the text "name=content": a test can tell whose it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from protocol.xds.requests import DeltaRequest, Nack, SotwRequest
from protocol.xds.resources import Part, Resource, ResourceSet, build_resource
from protocol.xds.types import TypeRules

PREFIX = "type.googleapis.com/"
CDS = PREFIX + "envoy.config.cluster.v3.Cluster"
EDS = PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LDS = PREFIX + "envoy.config.listener.v3.Listener"
RDS = PREFIX + "envoy.config.route.v3.RouteConfiguration"
VHDS = PREFIX + "envoy.config.route.v3.VirtualHost"
SDS = PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"
ECDS = PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
NDS = PREFIX + "istio.networking.nds.v1.NameTable"


def placeholder(name: str) -> Resource:
    """What answers a name that nothing defines, where a type has such an answer."""
    return build_text(name, "")


def build_text(name: str, content: str) -> Resource:
    """A resource whose body says its name and content."""
    return build_resource(name, f"{name}={content}".encode())


def owner(name: str) -> str:
    """What a virtual host belongs to."""
    return name.rpartition("/")[0]


RULES = (
    TypeRules(type_url=CDS, short="CDS", wildcard=True, complete=True),
    TypeRules(type_url=EDS, short="EDS", follows=CDS, placeholder=placeholder),
    TypeRules(type_url=LDS, short="LDS", wildcard=True, complete=True),
    TypeRules(type_url=RDS, short="RDS", placeholder=placeholder),
    TypeRules(type_url=VHDS, short="VHDS", wildcard=True, follows=RDS, owner=owner),
    TypeRules(type_url=SDS, short="SDS", removals=False),
    TypeRules(type_url=ECDS, short="ECDS", removals=False, answers_empty=True),
    TypeRules(type_url=NDS, short="NDS", wildcard=True),
)
TYPES: Mapping[str, TypeRules] = {rules.type_url: rules for rules in RULES}
BY_NAME: Mapping[str, TypeRules] = {**TYPES, **{url: replace(TYPES[url], wildcard=False) for url in (CDS, LDS)}}
"""The rules of clients that ask for clusters and listeners by name."""

SHORT = {rules.type_url: rules.short for rules in RULES}
URL = {rules.short: rules.type_url for rules in RULES}

NACK = Nack(code=13, message="no good")


def build_part(contents: Mapping[str, str]) -> Part:
    """A part of name -> content."""
    return Part(build_text(name, content) for name, content in contents.items())


def build_set(*contents: Mapping[str, str]) -> ResourceSet:
    """A set with one part for each of these maps."""
    return ResourceSet(*map(build_part, contents))


def ask(type_url: str, *names: str, nonce: str = "", version: str = "", nack: Nack | None = None) -> SotwRequest:
    """A state-of-the-world request."""
    return SotwRequest(type_url=type_url, names=names, nonce=nonce, version=version, nack=nack)


def subscribe(
    type_url: str,
    *names: str,
    minus: Iterable[str] = (),
    initial: Mapping[str, str] | None = None,
    nonce: str = "",
    nack: Nack | None = None,
) -> DeltaRequest:
    """A delta request; `minus` are the names that it unsubscribes."""
    return DeltaRequest(
        type_url=type_url, subscribe=names, unsubscribe=tuple(minus), initial=initial or {}, nonce=nonce, nack=nack
    )
