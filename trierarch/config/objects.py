"""Configuration objects as values: what an object is called, where it came from, what it says.

Objects compare by identity. The store keeps the old object when a new one says the same, so `is` means "unchanged" all
through the program, and a value that holds objects hashes in no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

SpecT_co = TypeVar("SpecT_co", covariant=True)


class ObjectKey(NamedTuple):
    """The identity of an object (a NamedTuple, not a dataclass: these are hashed more than anything else).

    `cluster` is the Kubernetes cluster that it was read from; `kind` is a name of the table in `kinds.py`, unique there
    ("Gateway" is Istio's, "KubernetesGateway" the Gateway API's). Namespace is "" for cluster-scoped kinds.
    """

    cluster: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an object was read: the source's name, a path relative to it, and the line (from 1) of its document."""

    source: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConfigObject(Generic[SpecT_co]):
    """One configuration object. `digest` covers everything that may matter: labels, annotations, spec, status.

    `created` is in seconds since the epoch, or -inf / +inf for an object without creationTimestamp (Kubernetes kinds
    count as the oldest, Istio kinds as the newest).
    """

    key: ObjectKey
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: float = inf
    resource_version: str = ""
    spec: SpecT_co
    digest: bytes
    origin: Origin

    @property
    def age(self) -> tuple[float, str, str]:
        """Sorts objects by age: the oldest first, ties by name, then namespace (xds-server.md §8.2)."""
        return (self.created, self.key.name, self.key.namespace)


AnyObject = ConfigObject[Any]
