"""Tracing of HTTP connection managers: which requests, and what their spans are tagged with (networking.md §6.5).

The tracer itself is named by the proxy's bootstrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpConnectionManagerTracing
from protocol.proto.envoy.type.metadata.v3 import (
    MetadataKey,
    MetadataKeyPathSegment,
    MetadataKind,
    MetadataKindRequest,
)
from protocol.proto.envoy.type.tracing.v3 import (
    CustomTag,
    CustomTagEnvironment,
    CustomTagHeader,
    CustomTagLiteral,
    CustomTagMetadata,
)
from protocol.proto.envoy.type.v3 import Percent
from trierarch.config.tracing import EnvironmentTag, HeaderTag, LiteralTag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trierarch.config.tracing import CustomTagKind
    from trierarch.push.telemetry import Reporter, Telemetry, TracingSettings

_RBAC = "envoy.filters.http.rbac"
_DRY_RUN = "istio.authorization.dry_run."
DRY_RUN_TAGS = {
    f"{_DRY_RUN}allow_policy.name": "istio_dry_run_allow_shadow_effective_policy_id",
    f"{_DRY_RUN}allow_policy.result": "istio_dry_run_allow_shadow_engine_result",
    f"{_DRY_RUN}deny_policy.name": "istio_dry_run_deny_shadow_effective_policy_id",
    f"{_DRY_RUN}deny_policy.result": "istio_dry_run_deny_shadow_engine_result",
}
"""Tags for policies that are only tried, by the key under which the filter leaves its verdict."""


def build_tracing(telemetry: Telemetry) -> HttpConnectionManagerTracing | None:
    """The block of a connection manager; None: nothing is traced."""
    settings = telemetry.tracing
    if settings is None:
        return None
    return HttpConnectionManagerTracing(
        client_sampling=Percent(value=100.0),
        random_sampling=Percent(value=settings.sampling),
        overall_sampling=Percent(value=100.0),
        max_path_tag_length=settings.max_tag_length or None,
        custom_tags=sorted(_build_tags(settings, telemetry.reporter), key=lambda tag: tag.tag),
    )


def _build_tags(settings: TracingSettings, reporter: Reporter | None) -> Iterator[CustomTag]:
    yield from (_build_tag(name, kind) for name, kind in settings.tags)
    if reporter is None:
        return
    literals = {
        "istio.canonical_revision": reporter.revision,
        "istio.canonical_service": reporter.service,
        "istio.cluster_id": reporter.cluster,
        "istio.mesh_id": reporter.mesh,
        "istio.namespace": reporter.namespace,
    }
    yield from (CustomTag(tag=name, literal=CustomTagLiteral(value=value)) for name, value in literals.items())
    yield from (CustomTag(tag=name, metadata=_verdict(key)) for name, key in DRY_RUN_TAGS.items())


def _build_tag(name: str, kind: CustomTagKind) -> CustomTag:
    match kind:
        case LiteralTag(value=value):
            return CustomTag(tag=name, literal=CustomTagLiteral(value=value))
        case EnvironmentTag(name=variable, default_value=default):
            return CustomTag(tag=name, environment=CustomTagEnvironment(name=variable, default_value=default))
        case HeaderTag(name=header, default_value=default):
            return CustomTag(tag=name, request_header=CustomTagHeader(name=header, default_value=default))


def _verdict(key: str) -> CustomTagMetadata:
    return CustomTagMetadata(
        kind=MetadataKind(request=MetadataKindRequest()),
        metadata_key=MetadataKey(key=_RBAC, path=[MetadataKeyPathSegment(key=key)]),
    )
