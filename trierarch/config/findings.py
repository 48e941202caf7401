"""What the user is told about the configuration: values, never exceptions. One malformed object never stops others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trierarch.config.objects import ObjectKey, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A document or object that is not in force. `path` is the place inside the object, such as `spec.hosts[0]`.

    `key` is None when not even the object's name could be read. `hint` says what would be right, or is "".
    """

    origin: Origin
    key: ObjectKey | None
    path: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A warning about an object that is in force: an unknown field, a duplicate definition, a deprecated spelling."""

    origin: Origin
    key: ObjectKey | None
    path: str
    reason: str
    hint: str = ""


Finding = Rejected | Remark


def finding_fields(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    return {
        "level": "error" if isinstance(finding, Rejected) else "warning",
        "file": finding.origin.path,
        "line": finding.origin.line,
        "object": str(finding.key) if finding.key else "",
        "path": finding.path,
        "reason": finding.reason,
        "hint": finding.hint,
    }
