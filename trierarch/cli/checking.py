"""What a folder or file says that is wrong, in lines for people. Shared by `validate` and `serve --strict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.admission import Admitted
from trierarch.config.findings import Rejected, Remark
from trierarch.config.folder import Folder, FolderState, is_config_path, update_folder
from trierarch.config.key_sets import NOBODYS_KEYS, KeySet, build_key_set
from trierarch.config.mesh_files import read_mesh_config
from trierarch.config.objects import Origin
from trierarch.config.store import ConfigView
from trierarch.push.mesh import ContextSettings
from trierarch.push.processors import build_push_context
from trierarch.push.steps import run_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from trierarch.config.findings import Finding
    from trierarch.config.objects import AnyObject, ObjectKey

CLUSTER = "Kubernetes"
"""What a cluster is called that has no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in some files: the objects that are fine, and what is said of them and of the others."""

    objects: tuple[AnyObject, ...]
    findings: tuple[Finding, ...]
    unknown_kinds: tuple[str, ...]

    @property
    def rejected(self) -> tuple[str, ...]:
        """What is rejected, each once: objects by name, documents that cannot be told apart as one by place."""
        found = (each for each in self.findings if isinstance(each, Rejected))
        return tuple(dict.fromkeys(str(each.key) if each.key else _place(each) for each in found))

    def is_good(self, *, strict: bool) -> bool:
        """Whether nothing is rejected; strictly, whether nothing is remarked either."""
        return not any(strict or isinstance(finding, Rejected) for finding in self.findings)


def check_path(path: Path) -> Checked:
    """Check a file, or all configuration files below a folder. Raises OSError for what cannot be read."""
    root = path if path.is_dir() else path.parent
    contents = {str(each.relative_to(root)): each.read_bytes() for each in _files(path)}
    steps = update_folder(Folder(source=str(root), cluster=CLUSTER), FolderState(), contents)
    state, change = run_steps(steps)
    kinds = tuple(f"{unknown.api_version} {unknown.kind}" for unknown in change.unknown_kinds)
    return Checked(objects=tuple(state.objects.values()), findings=state.findings, unknown_kinds=kinds)


def check_mesh_config(path: Path) -> Checked:
    """Check a file with MeshConfig. Raises OSError if it cannot be read."""
    verdict = read_mesh_config(path.read_bytes(), Origin(source=str(path.parent), path=path.name, line=1), CLUSTER)
    objects = (verdict.object,) if isinstance(verdict, Admitted) else ()
    return Checked(objects=objects, findings=verdict.findings, unknown_kinds=())


def check_together(objects: Sequence[AnyObject], *, domain: str) -> tuple[Finding, ...]:
    """What only a mesh of all these objects shows, such as a route to a host that nobody serves. Of an object that is
    there several times the last counts.

    Keys of token issuers are not fetched for it: that they are not there yet is not for the files to mend.
    """
    view, _ = ConfigView().apply(objects)
    settings = ContextSettings(cluster=CLUSTER, domain=domain)
    first = run_steps(build_push_context(view, settings, None, 1))
    keys = [build_key_set(each, KeySet(NOBODYS_KEYS), "") for each in first.request_authentications.pending]
    context = run_steps(build_push_context(view.apply(keys)[0], settings, first, 2))
    return (*_defined_again(objects), *context.findings)


def _defined_again(objects: Iterable[AnyObject]) -> Iterator[Remark]:
    seen: dict[ObjectKey, AnyObject] = {}
    for each in objects:
        earlier = seen.get(each.key)
        if earlier is not None:
            reason = f"also defined in {earlier.origin.path}:{earlier.origin.line}, which does not count"
            hint = "of an object in several paths the last counts"
            yield Remark(origin=each.origin, key=each.key, path="", reason=reason, hint=hint)
        seen[each.key] = each


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return (path,)
    return _below(path)


def _below(folder: Path) -> Iterator[Path]:
    for each in sorted(folder.rglob("*")):
        if each.is_file() and is_config_path(str(each.relative_to(folder))):
            yield each


def finding_line(finding: Finding) -> str:
    """A finding in one line, with the place first as compilers do."""
    level = "error" if isinstance(finding, Rejected) else "warning"
    about = " ".join(filter(None, (str(finding.key) if finding.key else "", finding.path)))
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{_place(finding)}: {level}: {about}{': ' if about else ''}{finding.reason}{hint}"


def _place(finding: Finding) -> str:
    return f"{finding.origin.path}:{finding.origin.line}"
