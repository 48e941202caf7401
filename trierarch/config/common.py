"""Pieces that several kinds share: string matches, selectors, ports, TLS versions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from trierarch.config.wire import Bare, OneOf, UInt32


@dataclass(frozen=True, slots=True)
class Exact(Bare):
    """The whole string, case-sensitive."""

    value: str


@dataclass(frozen=True, slots=True)
class Prefix(Bare):
    """The beginning of the string."""

    value: str


@dataclass(frozen=True, slots=True)
class Regex(Bare):
    """An RE2 expression for the whole string."""

    value: str


@dataclass(frozen=True, slots=True)
class AnyValue:
    """A match with nothing set: any value, as long as there is one."""


StringMatch: TypeAlias = Annotated[
    Exact | Prefix | Regex | AnyValue, OneOf(unset=AnyValue(), exact=Exact, prefix=Prefix, regex=Regex)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Percent:
    """A share in percent, 0 to 100, with fractions."""

    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSelector:
    """A port by number. 0 is unset."""

    number: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where traffic goes: a host (perhaps a short name), a subset of it, a port."""

    host: str = ""
    subset: str = ""
    port: PortSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkloadSelector:
    """Workloads that have all these labels (`workloadSelector.labels`)."""

    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicySelector:
    """Workloads that have all these labels, in the newer spelling (`matchLabels`)."""

    match_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTargetReference:
    """What a policy is for, by name: a Gateway, a GatewayClass, a Service or a ServiceEntry (networking.md §6.0).

    `group` "" is Kubernetes' core group; `namespace` "" is the policy's own.
    """

    group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class TlsProtocol(StrEnum):
    """TLS protocol versions of a server. AUTO leaves the choice to Envoy's defaults."""

    AUTO = "TLS_AUTO"
    TLSV1_0 = "TLSV1_0"
    TLSV1_1 = "TLSV1_1"
    TLSV1_2 = "TLSV1_2"
    TLSV1_3 = "TLSV1_3"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelectorRequirement:
    """One condition on a label; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelSelector:
    """Kubernetes' selector: all conditions must hold; an empty one selects everything."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
