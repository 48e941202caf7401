"""Checks that several kinds share: names, hosts, ports, durations, percentages, labels, headers, exportTo.

Each takes the path where the value stands and yields what is wrong with it. Absent values pass: whether a value must be
there is the business of who asks. The rules are those that istiod's validation and Istio's CRDs apply.
"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from trierarch.config.envoy_commands import faults_of_commands
from trierarch.config.hosts import is_ip_address, is_wildcard
from trierarch.config.regex import fault_of_regex
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trierarch.config.common import Percent
    from trierarch.config.destination_rule import TcpKeepalive

UNIX = "unix://"
EXPORT_PUBLIC, EXPORT_PRIVATE, EXPORT_NONE = "*", ".", "~"
PROTOCOLS = frozenset(
    {
        "http",
        "http2",
        "grpc",
        "grpc-web",
        "http_proxy",
        "https",
        "tls",
        "tcp",
        "mongo",
        "redis",
        "mysql",
        "udp",
        "hbone",
        "double-hbone",
    }
)
"""Protocols by name (networking.md §1.3)."""

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_HOST_LABEL = re.compile(r"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_WILDCARD_LABEL = re.compile(r"(?:\*|\*?-?[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_HEADER_NAME = re.compile(r":?[-!#$%&'*+.^_`|~0-9A-Za-z]+", re.ASCII)
_MAX_HOST, _MAX_LABEL, _MAX_NAME = 255, 63, 253
_LEAST_PERCENT = 0.0001


def check_host(path: str, host: str) -> Complaints:
    """A DNS name, perhaps with a dot at its end."""
    yield from _check_labels_of_host(path, host, first=_HOST_LABEL)


def check_wildcard_host(path: str, host: str) -> Complaints:
    """A DNS name whose first label may be, or begin with, a wildcard."""
    yield from _check_labels_of_host(path, host, first=_WILDCARD_LABEL)


def _check_labels_of_host(path: str, host: str, first: re.Pattern[str]) -> Complaints:
    if not host:
        yield Violation(path, "a host is missing")
        return
    if len(host) > _MAX_HOST:
        yield Violation(path, f"the host is longer than {_MAX_HOST} characters")
        return
    head, *labels = host.removesuffix(".").split(".")
    fits = all(len(label) <= _MAX_LABEL and _HOST_LABEL.fullmatch(label) for label in labels)
    if not fits or len(head) > _MAX_LABEL or not first.fullmatch(head) or (labels and labels[-1].isdigit()):
        yield Violation(path, f'"{host}" is not a valid host name', _host_hint(host))


def _host_hint(host: str) -> str:
    if "/" in host:
        return "a host without namespace or path is expected here"
    if ":" in host and not is_ip_address(host):
        return "a host without port is expected here"
    return "a wildcard may only stand at the beginning" if "*" in host[1:] else ""


def check_namespace(path: str, namespace: str) -> Complaints:
    """The name of a namespace."""
    if not _DNS_LABEL.fullmatch(namespace):
        yield Violation(path, f'"{namespace}" is not a valid namespace name')


def check_dns_label(path: str, name: str) -> Complaints:
    """A name of lower-case letters, digits and hyphens (RFC 1123), at most 63 of them."""
    if not _DNS_LABEL.fullmatch(name):
        yield Violation(path, f'"{name}" is not a valid name', "lower-case letters, digits and hyphens")


def check_subset_name(path: str, name: str) -> Complaints:
    """The name of a subset, which may have capital letters."""
    yield from check_dns_label(path, name.lower())


def check_address(path: str, address: str) -> Complaints:
    """An IP address or a range of them, without the forms that only some programs read: zones and masks of bits."""
    host, slash, length = address.partition("/")
    try:
        ip_network(address, strict=False) if slash else ip_address(address)
        well_formed = "%" not in host and (not slash or length.isdigit())
    except ValueError:
        well_formed = False
    if not well_formed:
        yield Violation(path, f'"{address}" is not an IP address or a range like 10.0.0.0/8')


def check_unix_address(path: str, address: str) -> Complaints:
    """`unix://` and an absolute path, or `@` and an abstract name."""
    name = address.removeprefix(UNIX)
    if not name.startswith(("/", "@")) or name.endswith("/"):
        yield Violation(path, f'"{address}" is not a socket', 'an absolute path, or "@" and a name')


def check_port(path: str, number: int) -> Complaints:
    """A port that can be listened on."""
    if not 1 <= number <= 65535:
        yield Violation(path, f"port {number} is not between 1 and 65535")


def check_optional_port(path: str, number: int) -> Complaints:
    """A port; 0 means that there is none."""
    if number:
        yield from check_port(path, number)


def check_protocol(path: str, protocol: str) -> Complaints:
    """A protocol that has a name; "" means that it is detected."""
    if protocol and protocol.lower() not in PROTOCOLS:
        yield Violation(path, f'unknown protocol "{protocol}"', f"one of {', '.join(sorted(PROTOCOLS))}")


def check_duration(path: str, seconds: float | None, minimum: float = 0.001) -> Complaints:
    """A duration of whole milliseconds, at least one (or `minimum` seconds)."""
    if seconds is None:
        return
    if seconds < minimum:
        yield Violation(path, f"a duration of at least {minimum:g}s is expected")
    elif abs(seconds * 1000 - round(seconds * 1000)) > 1e-6:
        yield Violation(path, "a duration of whole milliseconds is expected")


def check_optional_duration(path: str, seconds: float | None) -> Complaints:
    """A duration, where zero switches something off."""
    if seconds:
        yield from check_duration(path, seconds)


def check_percent(path: str, percent: Percent | None) -> Complaints:
    """A share between 0 and 100 that is not less than what Envoy counts in: millionths."""
    if percent is None:
        return
    yield from check_percentage(f"{path}.value", percent.value)
    if 0 < percent.value < _LEAST_PERCENT:
        yield Violation(f"{path}.value", f"{percent.value:g} is less than {_LEAST_PERCENT:g}, and not 0")


def check_percentage(path: str, value: float) -> Complaints:
    """A number between 0 and 100."""
    if not 0 <= value <= 100:
        yield Violation(path, f"{value:g} is not between 0 and 100")


def check_not_negative(path: str, **numbers: int) -> Complaints:
    """Numbers by field name that may be zero but not less."""
    for name, number in numbers.items():
        if number < 0:
            yield Violation(f"{path}.{name}", f"{number} is negative")


def check_regex(path: str, expression: str) -> Complaints:
    """An expression that RE2 accepts."""
    fault = fault_of_regex(expression)
    if not expression:
        yield Violation(path, "an empty regular expression matches nothing")
    elif fault:
        yield Violation(path, f"not a regular expression of RE2: {fault}")


def check_labels(path: str, labels: Mapping[str, str]) -> Complaints:
    """Keys and values that a Kubernetes object may have as labels."""
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        prefixed = not slash or 0 < len(prefix) <= _MAX_NAME
        if not prefixed or not _QUALIFIED.fullmatch(name) or len(name) > _MAX_LABEL:
            yield Violation(path, f'"{key}" is not a valid label')
        if value and (not _QUALIFIED.fullmatch(value) or len(value) > _MAX_LABEL):
            yield Violation(f"{path}[{key}]", f'"{value}" is not a valid label value')


def check_selector(path: str, labels: Mapping[str, str]) -> Complaints:
    """Labels that select workloads: no wildcards, and at least one is probably meant."""
    if not labels:
        yield Caution(path, "a selector without labels selects every workload of the namespace")
    for key, value in labels.items():
        if not key:
            yield Violation(path, "an empty label selects nothing")
        if "*" in key or "*" in value:
            yield Violation(f"{path}[{key}]", "wildcards are not possible in selectors")


def check_header_name(path: str, name: str, *, pseudo: bool = True) -> Complaints:
    """A header's name; `pseudo` allows those that begin with a colon, such as `:authority`."""
    if not name:
        yield Violation(path, "a header name is empty")
    elif not _HEADER_NAME.fullmatch(name) or (name.startswith(":") and not pseudo):
        yield Violation(path, f'"{name}" is not a valid header name')


def check_header_value(path: str, value: str) -> Complaints:
    """A header's value, in which every `%` is doubled or part of a command such as `%HOSTNAME%`."""
    yield from check_one_line(path, value)
    yield from check_commands(path, value)


def check_commands(path: str, text: str, *further: str) -> Complaints:
    """A text in which Envoy puts something in the place of commands; `further` ones than those of headers."""
    for fault in faults_of_commands(text, further):
        yield Violation(path, fault, "a percent sign is written %%")


def check_one_line(path: str, text: str) -> Complaints:
    """A part of a header. A block of YAML ends with a line feed, for which Envoy refuses the whole resource."""
    if any(letter in text for letter in "\0\r\n"):
        yield Violation(path, "line feeds and zeros are not possible in headers")


def check_keepalive(path: str, keepalive: TcpKeepalive | None) -> Complaints:
    """TCP keepalive: whole seconds in effect, so at least one."""
    if keepalive is not None:
        yield from check_duration(f"{path}.time", keepalive.time, 1)
        yield from check_duration(f"{path}.interval", keepalive.interval, 1)


def check_export_to(
    path: str, export_to: Sequence[str], own: str = EXPORT_PRIVATE, *, nobody: bool = False
) -> Complaints:
    """Namespaces that see an object: names, or alone `*` (all) or `~` (none, if `nobody`), or `.` (its `own`)."""
    named = [own if namespace == EXPORT_PRIVATE else namespace for namespace in export_to]
    for index, namespace in enumerate(export_to):
        here = f"{path}[{index}]"
        if named[index] in named[:index]:
            yield Violation(here, f'"{namespace}" is there twice')
        if namespace == EXPORT_NONE and not nobody:
            yield Violation(here, "~ (nobody) is only possible for a ServiceEntry")
        if namespace not in (EXPORT_PUBLIC, EXPORT_PRIVATE, EXPORT_NONE):
            yield from check_namespace(here, namespace)
    for alone in (EXPORT_PUBLIC, EXPORT_NONE):
        if alone in export_to and len(set(export_to)) > 1:
            yield Violation(path, f"{alone} cannot be combined with others")


def check_distinct(path: str, names: Iterable[str | int], what: str) -> Complaints:
    """Names that must differ, by their order in the list at `path`."""
    seen: set[str | int] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Violation(f"{path}[{index}]", f'the {what} "{name}" is there twice')
        seen.add(name)


def check_service_host(path: str, host: str) -> Complaints:
    """The host of a destination: a name or a wildcard of more than the star."""
    if host == "*":
        yield Violation(path, "the wildcard * cannot be a destination")
    elif not (is_wildcard(host) and is_ip_address(host)):
        yield from check_wildcard_host(path, host)
