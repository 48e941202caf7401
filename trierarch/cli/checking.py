"""What a folder or file says that is wrong, in lines for people. Shared by `validate` and `serve --strict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trierarch.config.findings import Rejected
from trierarch.config.folder import Folder, FolderState, is_config_path, update_folder
from trierarch.push.steps import run_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from trierarch.config.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in some files: how many objects are fine, and what is said about the others."""

    objects: int
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
    steps = update_folder(Folder(source=str(root), cluster="Kubernetes"), FolderState(), contents)
    state, change = run_steps(steps)
    kinds = tuple(f"{unknown.api_version} {unknown.kind}" for unknown in change.unknown_kinds)
    return Checked(objects=len(state.objects), findings=state.findings, unknown_kinds=kinds)


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
