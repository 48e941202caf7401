"""The supervision tree as a value, and the mailboxes between its actors: the running system on one screen.

    root (REST_FOR_ONE, 3 in 60 s)
      pipeline (ONE_FOR_ONE, 5 in 30 s)   collector, journal, sources, intake, debouncer, builder, generator, scheduler
      identity (ONE_FOR_ONE, 5 in 30 s)   certificate authority, certificate rotor, keys of token issuers
      connections                         the factory: one connection actor for each stream
      grpc                                xDS, opened when the first snapshot is built
      secure_grpc                         the same with TLS, opened when there is a certificate too
      debug                               readiness, metrics, debug pages

Only the wiring knows who talks to whom. Imported by `trierarch.cli.serve` and by tests, by nobody else.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import trio

from actors import (
    ads_service,
    authentication,
    authority,
    ca_service,
    certificate_rotor,
    collector,
    connection,
    connections,
    debouncer,
    debug,
    dns_source,
    file_source,
    generator,
    grpc_server,
    intake,
    journal,
    jwks_source,
    push_scheduler,
    snapshot_builder,
    token_keys,
)
from actors.grpc import Limits, Server
from actors.key_fetching import FetchTerms, KeyFetcher
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.newest import Newest
from actors.own_certificate import CertificateTerms
from actors.port_metrics import PortMetrics
from actors.serving_tls import ServingTls
from actors.static_supervisor import supervise
from actors.supervision import SupervisorHandle
from actors.tree import ChildSpec, Strategy, SupervisorSpec
from trierarch.push.mesh import ContextSettings
from trierarch.push.token_bucket import TokenBucket
from trierarch.settings import automatic_limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from actors.identity_messages import ToAuthority, ToRotor
    from actors.messages import (
        ToConnections,
        ToDebouncer,
        ToGenerator,
        ToIntake,
        ToJournal,
        ToPushScheduler,
        ToSnapshotBuilder,
    )
    from actors.ports import StreamHandler, StreamPort
    from actors.source_messages import ToDnsSource, ToJwksSource, ToSource
    from actors.tree import StartFunction
    from trierarch.config.findings import Finding
    from trierarch.identity.authenticate import Caller
    from trierarch.settings import Settings

MOST_CONNECTIONS = 20_000
"""Control lanes are as long as so many connections may make them."""

DESCRIPTORS = 50_000
"""Files and sockets that the process may have open, unless somebody knows better."""

MOST_KEY_SETS = 10_000
"""The same for places from which keys are fetched."""

ADMITTED = 24
"""First configurations that are under way at a time."""


class StartSource(Protocol):
    """Runs a source for one life: tells intake everything, then what changes, and everything again when asked to."""

    def __call__(
        self, inbox: Mailbox[ToSource], *, intake: Mailbox[ToIntake], task_status: trio.TaskStatus[None]
    ) -> Awaitable[None]:
        """Run until the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """Somebody who says what the mesh's configuration is."""

    name: str
    start: StartSource


@dataclass(frozen=True, slots=True)
class Mailboxes:
    """Every mailbox but those of sources and connections; they outlive the actors."""

    intake: Mailbox[ToIntake] = field(default_factory=lambda: Mailbox("intake"))
    debouncer: Mailbox[ToDebouncer] = field(default_factory=lambda: Mailbox("debouncer"))
    builder: Mailbox[ToSnapshotBuilder] = field(default_factory=lambda: Mailbox("snapshot_builder", flow=1))
    generator: Mailbox[ToGenerator] = field(default_factory=lambda: Mailbox("generator", flow=MOST_CONNECTIONS))
    scheduler: Mailbox[ToPushScheduler] = field(
        default_factory=lambda: Mailbox("push_scheduler", flow=1, control=20 * MOST_CONNECTIONS)
    )
    authority: Mailbox[ToAuthority] = field(default_factory=lambda: Mailbox("authority", flow=MOST_CONNECTIONS))
    rotor: Mailbox[ToRotor] = field(default_factory=lambda: Mailbox("certificate_rotor"))
    connections: Mailbox[ToConnections] = field(default_factory=lambda: Mailbox("connections", flow=100))
    journal: Mailbox[ToJournal] = field(default_factory=lambda: Mailbox("journal", control=20 * MOST_CONNECTIONS))
    names: Mailbox[ToDnsSource] = field(default_factory=lambda: Mailbox(dns_source.NAME))
    keys: Mailbox[ToJwksSource] = field(default_factory=lambda: Mailbox(jwks_source.NAME, control=MOST_KEY_SETS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What is made before the actors, is given to several of them, and outlives them. `ready` is set when proxies can
    be served. `descriptors`: files and sockets that the process may have open.
    """

    settings: Settings
    handle: SupervisorHandle
    metrics: Metrics
    mail: Mailboxes = field(default_factory=Mailboxes)
    ready: trio.Event = field(default_factory=trio.Event)
    memory: intake.Memory = field(default_factory=intake.Memory)
    descriptors: int = DESCRIPTORS
    newest: Newest = field(default_factory=Newest)

    def findings(self) -> tuple[Finding, ...]:
        """What each source says of its objects, and what the newest snapshot says of how they fit together."""
        return (*chain.from_iterable(self.memory.findings.values()), *self.newest.context.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The same for those who deal with identities."""

    rings: tuple[authentication.KeyRing, ...]
    tls: ServingTls = field(default_factory=ServingTls)
    memory: authority.Memory = field(default_factory=authority.Memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Everything that runs, before it runs."""

    tree: SupervisorSpec
    shared: Shared
    xds: grpc_server.Endpoint
    secure: grpc_server.Endpoint


def build_system(
    settings: Settings, sources: tuple[SourceSpec, ...] | None = None, *, descriptors: int = DESCRIPTORS
) -> System:
    """Wire the actors for these settings; `sources` instead of the files that the settings name. `descriptors`: files
    and sockets that the process may have open.
    """
    metrics = Metrics()
    handle = SupervisorHandle(on_restart=lambda name: metrics.restarts.labels(name).inc())
    shared = Shared(settings=settings, handle=handle, metrics=metrics, descriptors=descriptors)
    identity = Identity(rings=authentication.plan_rings(settings))
    xds, secure = _build_endpoints(shared, identity)
    pipeline = _pipeline(shared, plan_sources(settings) if sources is None else sources)
    children: tuple[ChildSpec | SupervisorSpec, ...] = (
        SupervisorSpec(name="pipeline", intensity=5, period=30.0, children=pipeline),
        *_identity(shared, identity),
        ChildSpec(name="connections", start=_connections(shared)),
        *_grpc(xds, shared.ready),
        *_grpc(secure, shared.ready, identity.tls.available),
        *_debug(shared, (xds, secure)),
    )
    tree = SupervisorSpec(name="root", strategy=Strategy.REST_FOR_ONE, intensity=3, period=60.0, children=children)
    return System(tree=tree, shared=shared, xds=xds, secure=secure)


async def run(system: System, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run the system until cancelled. Raises `IntensityExceeded` with a report when it cannot go on."""
    await supervise(system.tree, handle=system.shared.handle, task_status=task_status)


def plan_sources(settings: Settings) -> tuple[SourceSpec, ...]:
    """The folders and files that the settings name. Raises `SourceMissing` if one of them is not there."""
    return tuple(
        SourceSpec(name=source.name, start=partial(file_source.run, source=source))
        for source in file_source.plan_sources(settings)
    )


def _pipeline(shared: Shared, sources: tuple[SourceSpec, ...]) -> tuple[ChildSpec, ...]:
    settings, mail = shared.settings, shared.mail
    source_mail: dict[str, Mailbox[ToSource]] = {source.name: Mailbox(source.name) for source in sources}
    name_mail = {dns_source.NAME: mail.names} if settings.resolve_gateways else {}
    options = debouncer.options(settings)
    actors: Mapping[str, StartFunction] = {
        **_collector(shared),
        "journal": partial(journal.run, mail.journal),
        **{each.name: partial(each.start, source_mail[each.name], intake=mail.intake) for each in sources},
        **{name: _dns_source(inbox, mail) for name, inbox in name_mail.items()},
        jwks_source.NAME: _jwks_source(shared),
        "intake": partial(
            intake.run,
            mail.intake,
            debouncer=mail.debouncer,
            sources={**source_mail, **name_mail, jwks_source.NAME: mail.keys},
            metrics=shared.metrics,
            memory=shared.memory,
        ),
        "debouncer": partial(debouncer.run, mail.debouncer, intake=mail.intake, builder=mail.builder, options=options),
        "snapshot_builder": _snapshot_builder(shared),
        "generator": partial(generator.run, mail.generator, memo_size=settings.cache_size, metrics=shared.metrics),
        "push_scheduler": _push_scheduler(shared),
    }
    return _children(actors)


def _children(actors: Mapping[str, StartFunction]) -> tuple[ChildSpec, ...]:
    return tuple(ChildSpec(name=name, start=start) for name, start in actors.items())


def _dns_source(inbox: Mailbox[ToDnsSource], mail: Mailboxes) -> StartFunction:
    look_up = dns_source.system_lookup()
    return partial(dns_source.run, inbox, intake=mail.intake, names=dns_source.Names(), look_up=look_up)


def _jwks_source(shared: Shared) -> StartFunction:
    outlets = jwks_source.Outlets(
        intake=shared.mail.intake,
        fetch=_fetcher(shared.settings).fetch,
        refresh=shared.settings.jwks_refresh,
        metrics=shared.metrics,
    )
    return partial(jwks_source.run, shared.mail.keys, outlets=outlets, key_sets=jwks_source.KeySets())


def _fetcher(settings: Settings) -> KeyFetcher:
    return KeyFetcher(FetchTerms(blocked=settings.jwks_blocked, ca_file=settings.jwks_ca_file))


def _snapshot_builder(shared: Shared) -> StartFunction:
    settings, mail = shared.settings, shared.mail
    outlets = snapshot_builder.Outlets(
        intake=mail.intake,
        debouncer=mail.debouncer,
        scheduler=mail.scheduler,
        names=mail.names if settings.resolve_gateways else None,
        keys=mail.keys,
        newest=shared.newest,
    )
    context = ContextSettings(cluster=settings.cluster_id, domain=settings.domain, features=settings.features)
    return partial(snapshot_builder.run, mail.builder, outlets=outlets, settings=context, metrics=shared.metrics)


def _push_scheduler(shared: Shared) -> StartFunction:
    mail = shared.mail
    outlets = push_scheduler.Outlets(
        builder=mail.builder,
        connections=mail.connections,
        generator=mail.generator,
        journal=mail.journal,
        metrics=shared.metrics,
        wall=time.time,
        opened=shared.ready.set,
    )
    throttle = shared.settings.push_throttle or automatic_limit()
    return partial(push_scheduler.run, mail.scheduler, outlets=outlets, throttle=throttle, admitted=ADMITTED)


def _identity(shared: Shared, identity: Identity) -> tuple[SupervisorSpec, ...]:
    if not shared.settings.secure_grpc_addr:
        return ()
    actors: dict[str, StartFunction] = {
        "authority": _authority(shared, identity.memory),
        "certificate_rotor": _certificate_rotor(shared, identity.tls),
    }
    if identity.rings:
        actors["token_keys"] = partial(token_keys.run, identity.rings, fetch=_fetcher(shared.settings).fetch)
    return (SupervisorSpec(name="identity", intensity=5, period=30.0, children=_children(actors)),)


def _authority(shared: Shared, memory: authority.Memory) -> StartFunction:
    mail = shared.mail
    outlets = authority.Outlets(
        tell=(mail.connections.post, mail.rotor.post),
        metrics=shared.metrics,
        trust_domain=lambda: shared.newest.trust_domain,
    )
    options = authority.options(shared.settings)
    return partial(authority.run, mail.authority, options=options, memory=memory, outlets=outlets, ready=shared.ready)


def _certificate_rotor(shared: Shared, tls: ServingTls) -> StartFunction:
    outlets = certificate_rotor.Outlets(authority=shared.mail.authority, tls=tls, wall=time.time, chance=random.random)
    origin = certificate_rotor.plan_origin(shared.settings)
    return partial(certificate_rotor.run, shared.mail.rotor, origin=origin, outlets=outlets)


def _connections(shared: Shared) -> StartFunction:
    settings, mail = shared.settings, shared.mail
    outlets = connection.Outlets(
        scheduler=mail.scheduler,
        generator=mail.generator,
        journal=mail.journal,
        certificates=CertificateTerms(
            authority=mail.authority, wall=time.time, chance=random.random, cause_ids=intake.CAUSE_IDS
        ),
        metrics=shared.metrics,
        wall=time.time,
        cluster=settings.cluster_id,
        checks_identity=settings.xds_identity_check,
    )
    return partial(connections.run, mail.connections, outlets=outlets, handle=shared.handle)


def _build_endpoints(shared: Shared, identity: Identity) -> tuple[grpc_server.Endpoint, grpc_server.Endpoint]:
    """The port for plaintext, and the one with TLS where callers prove who they are and have certificates signed."""
    settings = shared.settings
    ports = len([address for address in (settings.grpc_addr, settings.secure_grpc_addr) if address])
    limits = Limits(
        max_connections=grpc_server.connections_of_a_port(shared.descriptors, ports),
        max_message_size=settings.max_receive_size,
        max_concurrent_streams=settings.max_streams,
        keepalive_interval=settings.keepalive_interval,
        keepalive_timeout=settings.keepalive_timeout,
    )
    begins = TokenBucket(settings.max_requests_per_second or automatic_limit())
    serve = partial(Server, limits=limits, on_crash=grpc_server.report_crash, on_fault=grpc_server.fault_log())
    identify = _identify(shared, identity)
    streams = partial(ads_service.build_handlers, shared.mail.connections, shared.metrics, begins)
    secure = {**(streams(identify) if settings.xds_auth else streams()), **_ca_service(shared, identify)}
    make_secure = partial(serve, secure, tls=identity.tls.current)
    return (
        grpc_server.Endpoint(name="grpc", address=settings.grpc_addr, make=partial(serve, streams())),
        grpc_server.Endpoint(name="secure_grpc", address=settings.secure_grpc_addr, make=make_secure, encrypted=True),
    )


def _identify(shared: Shared, identity: Identity) -> Callable[[StreamPort], Caller]:
    return authentication.Authentication(
        authenticators=authentication.plan_authenticators(shared.settings, identity.rings),
        wall=time.time,
        newest=shared.newest,
    ).authenticate


def _ca_service(shared: Shared, identify: Callable[[StreamPort], Caller]) -> Mapping[str, StreamHandler]:
    if not shared.settings.ca_server:
        return {}
    terms = ca_service.Terms(
        authority=shared.mail.authority,
        metrics=shared.metrics,
        identify=identify,
        trusted=shared.settings.trusted_node_accounts,
        view=lambda: shared.newest.context.view,
        cluster=shared.settings.cluster_id,
    )
    return ca_service.build_handlers(terms)


def _grpc(endpoint: grpc_server.Endpoint, *ready: trio.Event) -> tuple[ChildSpec, ...]:
    if not endpoint.address:
        return ()
    start = partial(grpc_server.run, endpoint=endpoint, ready=ready)
    return (ChildSpec(name=endpoint.name, start=start, shutdown=15.0),)


def _debug(shared: Shared, endpoints: tuple[grpc_server.Endpoint, ...]) -> tuple[ChildSpec, ...]:
    settings = shared.settings
    ports = partial(grpc_server.describe, endpoints)
    shared.metrics.registry.register(PortMetrics(ports))
    addresses = tuple(dict.fromkeys(filter(None, (settings.http_addr, settings.monitoring_addr))))
    if not addresses:
        return ()
    sources = debug.Sources(
        connections=shared.mail.connections,
        journal=shared.mail.journal,
        metrics=shared.metrics,
        handle=shared.handle,
        ready=shared.ready.is_set,
        findings=shared.findings,
        mailboxes=lambda: tuple(getattr(shared.mail, each.name).statistics() for each in fields(shared.mail)),
        ports=ports,
        allow_kill=settings.allow_kill,
    )
    return (ChildSpec(name="debug", start=partial(debug.run, sources=sources, addresses=addresses)),)


def _collector(shared: Shared) -> Mapping[str, StartFunction]:
    return {"collector": partial(collector.run, shared.metrics)} if shared.settings.collects_briefly else {}
