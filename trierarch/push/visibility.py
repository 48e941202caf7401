"""Who sees a service: exportTo, the mesh's default for it, and the mesh's cap on ServiceEntries.

Implements networking.md §0.4 and xds-server.md §8.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.mesh_config import Visibility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.common import LabelSelector, LabelSelectorRequirement
    from trierarch.config.mesh_config import ServiceEntryVisibility, VisibilityPolicy
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service

PUBLIC = "*"
NOBODY = "~"
OWN_NAMESPACE = "."


def is_visible(service: Service, namespace: str) -> bool:
    """Whether a namespace sees a service."""
    return PUBLIC in service.export_to or (NOBODY not in service.export_to and namespace in service.export_to)


def exported_to(declared: tuple[str, ...], namespace: str, mesh: Mesh) -> frozenset[str]:
    """The namespaces declared or the mesh's default, "." being the service's own. Never empty."""
    stated = declared or mesh.config.default_service_export_to or (PUBLIC,)
    return frozenset(namespace if each == OWN_NAMESPACE else each for each in stated)


def entry_exported_to(
    declared: tuple[str, ...], namespace: str, namespace_labels: Mapping[str, str], mesh: Mesh
) -> frozenset[str]:
    """The same for a ServiceEntry, whose reach the mesh may cap by the labels of its namespace."""
    stated = exported_to(declared, namespace, mesh)
    cap = mesh.config.service_entry_visibility
    if cap is None or not cap.apply_to_sidecars or stated == {NOBODY}:
        return stated
    match _visibility(cap, namespace_labels):
        case Visibility.NONE:
            return frozenset({NOBODY})
        case Visibility.NAMESPACE:
            return frozenset({namespace if stated & {PUBLIC, namespace} else NOBODY})
        case Visibility.PUBLIC:
            return stated


def _visibility(cap: ServiceEntryVisibility, labels: Mapping[str, str]) -> Visibility:
    """The first policy for a namespace with these labels, else the default."""
    return next((each.visibility for each in cap.policies if _applies(each, labels)), cap.default_visibility)


def _applies(policy: VisibilityPolicy, labels: Mapping[str, str]) -> bool:
    selectors = (rule.namespace_selector for rule in policy.matching_rules)
    return any(selector is not None and selects(selector, labels) for selector in selectors)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a Kubernetes selector selects something with these labels; an empty one selects everything."""
    pairs = selector.match_labels.items() <= labels.items()
    return pairs and all(_holds(condition, labels) for condition in selector.match_expressions)


def _holds(condition: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether a condition holds; an operator that Kubernetes does not have holds for nothing."""
    present, value = condition.key in labels, labels.get(condition.key)
    match condition.operator:
        case "In":
            return present and value in condition.values
        case "NotIn":
            return not present or value not in condition.values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case _:
            return False
