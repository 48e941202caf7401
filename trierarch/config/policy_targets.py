"""What a policy may be attached to, and how that is checked: labels of workloads, or targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import check_selector
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.common import PolicySelector, PolicyTargetReference

TARGETS = frozenset(
    {
        ("", "Service"),
        ("gateway.networking.k8s.io", "Gateway"),
        ("gateway.networking.k8s.io", "GatewayClass"),
        ("networking.istio.io", "ServiceEntry"),
    }
)
"""Groups and kinds that a policy can be for."""

MOST_TARGETS = 16


def check_attachment(
    selector: PolicySelector | None,
    target_ref: PolicyTargetReference | None,
    target_refs: tuple[PolicyTargetReference, ...],
) -> Complaints:
    """The three fields by which policies say what they are for: one of them at most."""
    if selector is not None:
        yield from check_selector("spec.selector.matchLabels", selector.match_labels)
    if (selector is not None) + (target_ref is not None) + bool(target_refs) > 1:
        yield Violation("spec", "only one of selector, targetRef and targetRefs is possible")
    if target_ref is not None:
        yield from _check_target("spec.targetRef", target_ref)
    if len(target_refs) > MOST_TARGETS:
        yield Violation("spec.targetRefs", f"more than {MOST_TARGETS} targets")
    for index, target in enumerate(target_refs):
        yield from _check_target(f"spec.targetRefs[{index}]", target)


def _check_target(path: str, target: PolicyTargetReference) -> Complaints:
    if not target.name:
        yield Violation(f"{path}.name", "the name of the target is missing")
    if target.namespace:
        yield Violation(f"{path}.namespace", "a target is in the policy's own namespace")
    if (target.group if target.group != "core" else "", target.kind) not in TARGETS:
        possible = ", ".join(sorted(f"{group}/{kind}" if group else kind for group, kind in TARGETS))
        yield Violation(path, f'"{target.kind}" of group "{target.group}" is no possible target', f"one of {possible}")
