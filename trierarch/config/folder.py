"""The pure half of a folder as a source: from the contents of files to objects. Who reads and watches is an actor.

Rules (README, "File mode"):

- A document whose text did not change is not parsed again.
- A file with a document that cannot be told apart as an object loses nothing: what came from it before stays.
- An object that is refused keeps its last good version from the same file.
- Of an object in several files (or twice in one) the last counts, with a remark; when it goes, another returns.

Reading is a generator that yields after each document, so that it can run in a worker thread or between other work.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from trierarch.config.admission import Admitted, Refused, Verdict, admit, moved, refuse
from trierarch.config.decode import UnknownKind
from trierarch.config.documents import Chunk, ParsedDocument, parse_document, split_documents
from trierarch.config.findings import Finding, Rejected, Remark
from trierarch.config.kinds import KINDS, Family
from trierarch.config.objects import AnyObject, ObjectKey, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SUFFIXES = (".yaml", ".yml", ".json")

ResultT = TypeVar("ResultT")
Steps: TypeAlias = Generator[None, None, ResultT]
"""A computation that yields where something else may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder: the name of its source, the cluster that it describes, and whether Istio kinds count in it."""

    source: str
    cluster: str
    kubernetes_only: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found out about a document, when it stood at that line."""

    line: int
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileState:
    """What a file says, by the digests of its documents, and which objects stand by that."""

    digest: bytes = b""
    judged: Mapping[bytes, Judged] = field(default_factory=dict)
    objects: Mapping[ObjectKey, AnyObject] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unknown_kinds: tuple[UnknownKind, ...] = ()


_NO_FILE = FileState()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderState:
    """What a folder says: an immutable value. `objects` are those in force; `providers` the files that define each.

    `overridden` has a remark for each object that several files define; `named` are the unknown kinds already told.
    """

    files: Mapping[str, FileState] = field(default_factory=dict)
    objects: Mapping[ObjectKey, AnyObject] = field(default_factory=dict)
    providers: Mapping[ObjectKey, tuple[str, ...]] = field(default_factory=dict)
    overridden: Mapping[ObjectKey, Remark] = field(default_factory=dict)
    named: frozenset[tuple[str, str]] = frozenset()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All current findings: by file, then those about objects in several files."""
        by_file = [finding for path in sorted(self.files) for finding in self.files[path].findings]
        return (*by_file, *(self.overridden[key] for key in sorted(self.overridden)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderChange:
    """What became of a change of files. `rejected` and `remarks` are all that there are now, not only the new ones;
    `unknown_kinds` are those seen for the first time.
    """

    upserts: tuple[AnyObject, ...] = ()
    deletes: frozenset[ObjectKey] = frozenset()
    rejected: tuple[Rejected, ...] = ()
    remarks: tuple[Remark, ...] = ()
    unknown_kinds: tuple[UnknownKind, ...] = ()


Content: TypeAlias = bytes | Rejected | None
"""A file's bytes, or why it cannot be read (then what it said stays), or None if it is gone."""


def is_config_path(path: str) -> bool:
    """Whether a file (a path relative to the folder) is read: by suffix, and nothing hidden."""
    parts = PurePosixPath(path).parts
    return path.endswith(SUFFIXES) and not any(part.startswith(".") for part in parts)


def update_folder(
    folder: Folder, state: FolderState, contents: Mapping[str, Content]
) -> Steps[tuple[FolderState, FolderChange]]:
    """The folder after some files changed. Files that are not among the contents are as they were."""
    files = dict(state.files)
    for path in sorted(contents):
        content = contents[path]
        if content is None:
            files.pop(path, None)
        else:
            files[path] = yield from _read_file(folder, path, content, files.get(path, _NO_FILE))
    return _settle(state, files, contents)


# --- one file --------------------------------------------------------------------------------------------------------
def _read_file(folder: Folder, path: str, content: bytes | Rejected, before: FileState) -> Steps[FileState]:
    if isinstance(content, Rejected):
        return replace(before, digest=b"", findings=(content,))
    digest = blake2b(content, digest_size=16).digest()
    if digest == before.digest:
        return before
    judged: dict[bytes, Judged] = {}
    found: list[Verdict] = []
    for chunk in split_documents(content, path):
        known = judged.get(chunk.digest) or before.judged.get(chunk.digest)
        if known is None:
            verdicts = _read_chunk(folder, chunk, Origin(source=folder.source, path=path, line=chunk.line))
            yield
        elif known.line == chunk.line:
            verdicts = known.verdicts
        else:
            verdicts = tuple(moved(verdict, chunk.line - known.line) for verdict in known.verdicts)
        judged[chunk.digest] = Judged(chunk.line, verdicts)
        found.extend(verdicts)
    return _file_state(digest, judged, found, before)


def _read_chunk(folder: Folder, chunk: Chunk, origin: Origin) -> tuple[Verdict, ...]:
    documents = parse_document(chunk, origin)
    if isinstance(documents, Rejected):
        return (refuse(documents),)
    return tuple(_judge(folder, document, origin) for document in documents)


def _judge(folder: Folder, document: ParsedDocument, origin: Origin) -> Verdict:
    verdict = admit(document.value, origin, folder.cluster)
    if folder.kubernetes_only and isinstance(verdict, Admitted | Refused) and _is_istio(verdict):
        return UnknownKind(
            api_version=str(document.value.get("apiVersion")), kind=str(document.value.get("kind")), origin=origin
        )
    if document.item and isinstance(verdict, Refused):
        return Refused(key=verdict.key, findings=tuple(_inside(document.item, each) for each in verdict.findings))
    return verdict


def _is_istio(verdict: Admitted | Refused) -> bool:
    key = verdict.object.key if isinstance(verdict, Admitted) else verdict.key
    return key is not None and KINDS[key.kind].family is Family.ISTIO


def _inside(item: str, finding: Finding) -> Finding:
    return replace(finding, path=item + finding.path)


def _file_state(
    digest: bytes, judged: Mapping[bytes, Judged], found: Iterable[Verdict], before: FileState
) -> FileState:
    good: dict[ObjectKey, AnyObject] = {}
    kept: dict[ObjectKey, AnyObject] = {}
    findings: list[Finding] = []
    unknown: list[UnknownKind] = []
    for verdict in found:
        match verdict:
            case UnknownKind():
                unknown.append(verdict)
            case Refused():
                findings.extend(verdict.findings)
                kept |= _last_good(verdict, before)
            case Admitted(object=subject):
                findings.extend((*verdict.findings, *_twice_in_file(good.get(subject.key), subject)))
                good[subject.key] = subject
    return FileState(
        digest=digest,
        judged=judged,
        objects=kept | good,
        findings=tuple(findings),
        unknown_kinds=tuple(unknown),
    )


def _last_good(refused: Refused, before: FileState) -> Mapping[ObjectKey, AnyObject]:
    """What stays because of a document that may not be in force: that object, or all if nobody knows which it is."""
    if refused.key is None:
        return before.objects
    return {refused.key: before.objects[refused.key]} if refused.key in before.objects else {}


def _twice_in_file(earlier: AnyObject | None, later: AnyObject) -> Iterator[Remark]:
    if earlier is not None:
        reason = f"also defined at line {earlier.origin.line} of this file, which does not count"
        yield Remark(origin=later.origin, key=later.key, path="", reason=reason)


# --- all files -------------------------------------------------------------------------------------------------------
def _settle(
    state: FolderState, files: Mapping[str, FileState], touched: Iterable[str]
) -> tuple[FolderState, FolderChange]:
    """Decide for each object of the touched files which file's version is in force."""
    objects, overridden = dict(state.objects), dict(state.overridden)
    providers = _providers(state, files, touched)
    upserts: list[AnyObject] = []
    deletes: set[ObjectKey] = set()
    for key in _affected(state, files, touched):
        versions = [files[path].objects[key] for path in providers.get(key, ())]
        overridden.pop(key, None)
        if not versions:
            deletes.add(key)
            del objects[key]
            continue
        if len(versions) > 1:
            overridden[key] = _override(versions)
        if key not in objects or objects[key].digest != versions[-1].digest:
            upserts.append(versions[-1])
        objects[key] = versions[-1]
    unknown = _first_seen(state, files, touched)
    after = FolderState(
        files=files,
        objects=objects,
        providers=providers,
        overridden=overridden,
        named=state.named | {(each.api_version, each.kind) for each in unknown},
    )
    return after, _change(after, upserts, deletes, unknown)


def _affected(state: FolderState, files: Mapping[str, FileState], touched: Iterable[str]) -> list[ObjectKey]:
    """The keys of which one of the touched files has another version than before, or none any more."""
    keys: set[ObjectKey] = set()
    for path in touched:
        before = state.files.get(path, _NO_FILE).objects
        after = files.get(path, _NO_FILE).objects
        keys.update(key for key in before.keys() | after.keys() if before.get(key) is not after.get(key))
    return sorted(keys)


def _providers(
    state: FolderState, files: Mapping[str, FileState], touched: Iterable[str]
) -> Mapping[ObjectKey, tuple[str, ...]]:
    providers = dict(state.providers)
    for path in touched:
        before = state.files.get(path, _NO_FILE).objects
        after = files.get(path, _NO_FILE).objects
        for key in before.keys() - after.keys():
            providers[key] = tuple(other for other in providers[key] if other != path)
            if not providers[key]:
                del providers[key]
        for key in after.keys() - before.keys():
            providers[key] = tuple(sorted((*providers.get(key, ()), path)))
    return providers


def _override(versions: list[AnyObject]) -> Remark:
    """The remark about an object that several files define, at the version that counts."""
    others = ", ".join(f"{each.origin.path}:{each.origin.line}" for each in versions[:-1])
    return Remark(
        origin=versions[-1].origin,
        key=versions[-1].key,
        path="",
        reason=f"also defined in {others}, which does not count",
        hint="of an object in several files the last by path counts",
    )


def _first_seen(state: FolderState, files: Mapping[str, FileState], touched: Iterable[str]) -> tuple[UnknownKind, ...]:
    seen: dict[tuple[str, str], UnknownKind] = {}
    for path in sorted(touched):
        for each in files.get(path, _NO_FILE).unknown_kinds:
            seen.setdefault((each.api_version, each.kind), each)
    return tuple(each for name, each in seen.items() if name not in state.named)


def _change(
    state: FolderState, upserts: list[AnyObject], deletes: set[ObjectKey], unknown: tuple[UnknownKind, ...]
) -> FolderChange:
    findings = state.findings
    return FolderChange(
        upserts=tuple(upserts),
        deletes=frozenset(deletes),
        rejected=tuple(each for each in findings if isinstance(each, Rejected)),
        remarks=tuple(each for each in findings if isinstance(each, Remark)),
        unknown_kinds=unknown,
    )
