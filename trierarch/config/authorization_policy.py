"""AuthorizationPolicy: who may do what at a workload (networking.md §6.3)."""

from dataclasses import dataclass
from enum import StrEnum

from trierarch.config.common import PolicySelector, PolicyTargetReference


class Action(StrEnum):
    """What happens to requests that a policy matches. CUSTOM asks a provider."""

    ALLOW = "ALLOW"
    DENY = "DENY"
    AUDIT = "AUDIT"
    CUSTOM = "CUSTOM"


REQUEST_HEADERS = "request.headers[]"
CLAIMS = "request.auth.claims[]"
FILTER_METADATA = "experimental.envoy.filters.[]"
"""Attributes of conditions whose keys go on: `name[]` stands for `name[anything]`, the last one for any filter's."""

ONE_SEGMENT, ALL_SEGMENTS = "{*}", "{**}"
"""Operators of path templates."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Where requests come from: in each field that has values one must fit, and none of its `not_` twin.

    `ip_blocks` is about the peer that is connected, `remote_ip_blocks` about who is behind it.
    """

    principals: tuple[str, ...] = ()
    not_principals: tuple[str, ...] = ()
    request_principals: tuple[str, ...] = ()
    not_request_principals: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    not_namespaces: tuple[str, ...] = ()
    ip_blocks: tuple[str, ...] = ()
    not_ip_blocks: tuple[str, ...] = ()
    remote_ip_blocks: tuple[str, ...] = ()
    not_remote_ip_blocks: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    not_service_accounts: tuple[str, ...] = ()
    trust_domains: tuple[str, ...] = ()
    not_trust_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """What is asked for: in each field that has values one must fit, and none of its `not_` twin. Ports are numbers."""

    hosts: tuple[str, ...] = ()
    not_hosts: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    not_ports: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    not_methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class From:
    """One of the sources of a rule."""

    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class To:
    """One of the operations of a rule."""

    operation: Operation | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """A further condition: the attribute `key` has one of `values` and none of `not_values`."""

    key: str = ""
    values: tuple[str, ...] = ()
    not_values: tuple[str, ...] = ()


def is_template(path: str) -> bool:
    """Whether a path is matched segment by segment."""
    return ONE_SEGMENT in path or ALL_SEGMENTS in path


def attribute_of(key: str) -> str:
    """The attribute that a condition's key is about; "" if its brackets are malformed, or nothing stands in a pair."""
    name, bracket, rest = key.partition("[")
    if not bracket:
        return key
    if not rest.endswith("]") or not all(rest.removesuffix("]").split("][")):
        return ""
    return FILTER_METADATA if name.startswith(FILTER_METADATA.removesuffix("[]")) else f"{name}[]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """Matches what comes from one of the sources, asks for one of the operations and fits all conditions.

    Without sources or operations any will do. Empty lists of them, which match nothing, are refused.
    """

    from_: tuple[From, ...] | None = None
    to: tuple[To, ...] | None = None
    when: tuple[Condition, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where requests may come from; none: anywhere."""
        return tuple(each.source or Source() for each in self.from_ or ())

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What may be asked for; none: anything."""
        return tuple(each.operation or Operation() for each in self.to or ())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Provider:
    """An extension provider by name."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuthorizationPolicy:
    """What happens to requests that one of the rules matches. Without rules none does: ALLOW then allows nothing."""

    selector: PolicySelector | None = None
    target_ref: PolicyTargetReference | None = None
    target_refs: tuple[PolicyTargetReference, ...] = ()
    rules: tuple[Rule, ...] = ()
    action: Action = Action.ALLOW
    provider: Provider | None = None
