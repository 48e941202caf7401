"""What a proxy reports of its traffic: which requests it traces, and what spans are tagged with (networking.md §6.5).

It is a value of its own beside the view keys, since it tells workloads apart that are sent the same in all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.tracing import CustomTagKind, Tracing
    from trierarch.push.context import PushContext
    from trierarch.push.proxy import Proxy

DEFAULT_SAMPLING = 1.0
"""Percent of the requests."""


class Reporter(NamedTuple):
    """Whose spans these are."""

    service: str
    revision: str
    mesh: str
    namespace: str
    cluster: str


class TracingSettings(NamedTuple):
    """What proxies are told by their configuration. `sampling` is in percent; 0 of `max_tag_length` leaves it to Envoy.

    `tags`: those of the user by name, sorted; `names_reporter`: spans are tagged with their reporter besides.
    """

    sampling: float = DEFAULT_SAMPLING
    tags: tuple[tuple[str, CustomTagKind], ...] = ()
    max_tag_length: int = 0
    names_reporter: bool = True


class Telemetry(NamedTuple):
    """What a proxy reports. `tracing` None: it traces nothing; `reporter` None: spans do not tell of it."""

    tracing: TracingSettings | None = None
    reporter: Reporter | None = None


SILENT = Telemetry()


def tracing_settings(stated: Tracing | None) -> TracingSettings:
    """The settings that a proxy configuration states, as a value."""
    if stated is None:
        return TracingSettings()
    tags = ((name, tag.kind) for name, tag in sorted(stated.custom_tags.items()))
    return TracingSettings(
        sampling=stated.sampling or DEFAULT_SAMPLING,
        tags=tuple((name, kind) for name, kind in tags if kind is not None),
        max_tag_length=stated.max_path_tag_length,
        names_reporter=stated.enable_istio_tags is not False,
    )


def select_telemetry(proxy: Proxy, labels: Mapping[str, str], context: PushContext) -> Telemetry:
    """What a proxy with these labels reports, as the mesh or its own configuration says.

    Providers that the mesh names as its default take the place of these settings.
    """
    config = context.mesh.config
    if not config.enable_tracing or config.default_providers.tracing:
        return SILENT
    tracing = proxy.tracing or tracing_settings(config.default_config.tracing)
    return Telemetry(tracing, _reporter(proxy, labels) if tracing.names_reporter else None)


def _reporter(proxy: Proxy, labels: Mapping[str, str]) -> Reporter:
    return Reporter(
        service=labels.get(names.CANONICAL_NAME) or "unknown",
        revision=labels.get(names.CANONICAL_REVISION) or "latest",
        mesh=proxy.mesh_id or "unknown",
        namespace=proxy.namespace or "default",
        cluster=proxy.cluster or "unknown",
    )
