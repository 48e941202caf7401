"""Resources as Envoy's own /config_dump shows them: decoded again from what was sent, and without what is secret."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from protocol.codec import decode
from protocol.codec.any_message import PREFIX, message_class
from protocol.codec.plain import plain_message
from protocol.proto.envoy.config.core.v3 import DataSource
from protocol.proto.envoy.extensions.transport_sockets.tls.v3 import Secret
from trierarch.envoy.types import CLUSTER, ENDPOINT, EXTENSION, LISTENER, ROUTE, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from betterproto2 import Message

    from protocol.xds.resources import Resource

REDACTED = b"[redacted]"

_SECTIONS = {
    CLUSTER: ("ClustersConfigDump", "dynamic_active_clusters", "cluster"),
    ENDPOINT: ("EndpointsConfigDump", "dynamic_endpoint_configs", "endpoint_config"),
    LISTENER: ("ListenersConfigDump", "dynamic_listeners", "listener"),
    ROUTE: ("RoutesConfigDump", "dynamic_route_configs", "route_config"),
    SECRET: ("SecretsConfigDump", "dynamic_active_secrets", "secret"),
    EXTENSION: ("EcdsConfigDump", "ecds_filters", "ecds_filter"),
}
"""Type URL -> message of Envoy's admin page, its list, and the field of one resource in an item of it."""


def dump_resources(type_url: str, version: str, resources: Iterable[Resource]) -> dict[str, Any]:
    """One section of a config dump."""
    message, items, field = _SECTIONS[type_url]
    return {
        "@type": f"{PREFIX}envoy.admin.v3.{message}",
        "version_info": version,
        items: [_item(type_url, field, resource) for resource in resources],
    }


def dump_resource(type_url: str, resource: Resource) -> dict[str, Any]:
    """One resource as plain data, with its type."""
    known = find_type(type_url)
    if known is None:
        return {"@type": type_url}
    message = decode(known, resource.body)
    if isinstance(message, Secret):
        redact(message)
    plain = plain_message(message, find_type)
    return {"@type": type_url, **(plain if isinstance(plain, dict) else {})}


def redact(secret: Secret) -> None:
    """Take out of a secret what nobody may read. Envoy's own page has the same word in its place."""
    hidden = DataSource(inline_bytes=REDACTED)
    if (certificate := secret.tls_certificate) is not None:
        certificate.private_key = certificate.private_key and hidden
        certificate.password = certificate.password and hidden
        certificate.pkcs12 = certificate.pkcs12 and hidden
        certificate.private_key_provider = None
    if (tickets := secret.session_ticket_keys) is not None:
        tickets.keys = [hidden for _ in tickets.keys]
    if (generic := secret.generic_secret) is not None:
        generic.secret = generic.secret and hidden
        generic.secrets = dict.fromkeys(generic.secrets, hidden)


@cache
def find_type(type_url: str) -> type[Message] | None:
    """The message class of a type URL, or None if we know no such type."""
    try:
        return message_class(type_url)
    except LookupError:
        return None


def _item(type_url: str, field: str, resource: Resource) -> dict[str, Any]:
    shown = {"version_info": resource.version, field: dump_resource(type_url, resource)}
    if type_url == LISTENER:
        return {"name": resource.name, "active_state": shown}
    return {"name": resource.name, **shown} if type_url == SECRET else shown
