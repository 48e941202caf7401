"""May an object be in force? Decoding and the checks of its kind in one answer, for files and for clusters alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from trierarch.config.decode import Decoded, UnknownKind, decode_object
from trierarch.config.findings import Finding, Rejected, Remark
from trierarch.config.kinds import KINDS
from trierarch.config.violations import Caution, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.objects import AnyObject, ObjectKey, Origin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted:
    """The object may be in force."""

    object: AnyObject
    findings: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refused:
    """The object may not be in force. `key` is None when it could not be told which object it is."""

    key: ObjectKey | None
    findings: tuple[Finding, ...]


Verdict: TypeAlias = Admitted | Refused | UnknownKind


def admit(document: Mapping[str, object], origin: Origin, cluster: str) -> Verdict:
    """Decode a document and check it. All violations are told, not only the first."""
    decoded = decode_object(document, origin, cluster)
    return check(decoded) if isinstance(decoded, Decoded) else _undecoded(decoded)


def check(decoded: Decoded) -> Admitted | Refused:
    """Check a decoded object by the rules of its kind."""
    subject = decoded.object
    findings: list[Finding] = list(decoded.remarks)
    remarks: list[Remark] = list(decoded.remarks)
    for complaint in KINDS[subject.key.kind].check(subject):
        finding = _finding(complaint, subject)
        findings.append(finding)
        if isinstance(finding, Remark):
            remarks.append(finding)
    if len(remarks) < len(findings):
        return Refused(key=subject.key, findings=tuple(findings))
    return Admitted(object=subject, findings=tuple(remarks))


def refuse(rejected: Rejected) -> Refused:
    """The verdict about something that could not even be decoded."""
    return Refused(key=rejected.key, findings=(rejected,))


def moved(verdict: Verdict, lines: int) -> Verdict:
    """The same verdict about the same document, which now stands so many lines further down in its file."""
    if isinstance(verdict, UnknownKind):
        return replace(verdict, origin=_down(verdict.origin, lines))
    if isinstance(verdict, Refused):
        return replace(verdict, findings=tuple(_finding_down(each, lines) for each in verdict.findings))
    return Admitted(
        object=replace(verdict.object, origin=_down(verdict.object.origin, lines)),
        findings=tuple(replace(each, origin=_down(each.origin, lines)) for each in verdict.findings),
    )


def _finding_down(finding: Finding, lines: int) -> Finding:
    return replace(finding, origin=_down(finding.origin, lines))


def _down(origin: Origin, lines: int) -> Origin:
    return replace(origin, line=origin.line + lines)


def _undecoded(outcome: Rejected | UnknownKind) -> Refused | UnknownKind:
    return outcome if isinstance(outcome, UnknownKind) else refuse(outcome)


def _finding(complaint: Violation | Caution, subject: AnyObject) -> Finding:
    finding = Rejected if isinstance(complaint, Violation) else Remark
    return finding(
        origin=subject.origin, key=subject.key, path=complaint.path, reason=complaint.reason, hint=complaint.hint
    )
