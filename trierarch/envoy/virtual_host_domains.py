"""The domains by which a virtual host is found: every name under which a client may call a service (§5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.push.model import UNSPECIFIED_ADDRESS, Registry, Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.push.model import Service

_KUBERNETES = ".svc."


def service_domains(service: Service, addresses: tuple[str, ...], dns_domain: str) -> tuple[str, ...]:
    """All names and addresses of a service for a client whose resolver searches `dns_domain`; the full name first."""
    names: list[str] = []
    for host in (service.hostname, *(alias.host for alias in service.aliases)):
        names += [host, f"{host}.", *short_names(host, dns_domain)]
    if service.resolution is Resolution.PASSTHROUGH and service.registry is Registry.KUBERNETES:
        # A Pod of a headless service is called by its own name before that of the service.
        names += [f"*.{name}" for name in names]
    return (*names, *(bracketed(each) for each in addresses if each != UNSPECIFIED_ADDRESS))


def short_names(host: str, dns_domain: str) -> list[str]:
    """The names that a resolver with this search domain completes to `host`."""
    if _KUBERNETES in dns_domain:
        return _kubernetes_short_names(host, dns_domain)
    return _shared_suffix_names(host, dns_domain)


def without_namespace(dns_domain: str) -> str:
    """The search domain as good as that of all clients of other namespaces: these know a service by the same names."""
    _, found, suffix = dns_domain.partition(_KUBERNETES)
    return found + suffix if found else dns_domain


def last_label(dns_domain: str) -> str:
    """What stands before `.svc.` in the host names of the client's own namespace, which it knows by shorter names."""
    namespace, _, _ = dns_domain.partition(_KUBERNETES)
    return namespace.rpartition(".")[2]


def with_port(domains: Iterable[str], port: int) -> tuple[str, ...]:
    """Each domain, and each followed by the port: what clients write that name the port in the Host header."""
    return tuple(each for domain in domains for each in (domain, f"{domain}:{port}"))


def bracketed(address: str) -> str:
    """An address as it is written in a Host header."""
    return f"[{address}]" if ":" in address else address


def _kubernetes_short_names(host: str, dns_domain: str) -> list[str]:
    namespace, _, client_suffix = dns_domain.partition(_KUBERNETES)
    prefix, found, suffix = host.partition(_KUBERNETES)
    name, dot, service_namespace = prefix.partition(".")
    if not found or not dot or suffix != client_suffix:
        return []
    if service_namespace == namespace:
        return [name, f"{prefix}.svc", prefix]
    return [prefix, f"{prefix}.svc"]


def _shared_suffix_names(host: str, dns_domain: str) -> list[str]:
    """For a client outside of Kubernetes: what precedes the shared end, and with a namespace one label more."""
    labels, domain = host.split("."), dns_domain.split(".")
    shared = 0
    while shared < min(len(labels), len(domain)) and labels[-1 - shared] == domain[-1 - shared]:
        shared += 1
    unique = labels[: len(labels) - shared]
    if not shared or not dns_domain or not unique:
        return []
    name = ".".join(unique)
    return [name, f"{name}.{domain[-shared]}"] if len(unique) == 2 else [name]
