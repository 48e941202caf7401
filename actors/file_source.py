"""Reads a folder of configuration, or the file of the mesh configuration or the networks, and tells what changed.

Owns: what the files say, by the digests of their documents. It is kept in the `Source`, which outlives the actor.
Receives: `ResendAll` from intake.
Sends: `SourceChanged` to intake: everything at first, then what changes.
Dies when: nothing known. What cannot be read is a finding; a folder that is not there keeps its last good state.
Recovers by: reading what may have changed meanwhile, and sending everything again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, assert_never

import trio

from actors.folder_scan import SourceMissing, Stamp, Stamps, look_at_file, look_at_folder
from actors.inotify import POLLED, UNTOLD, Watch, open_watch
from actors.logs import get_logger
from actors.messages import SourceChanged
from actors.source_messages import ResendAll
from trierarch.config.admission import Admitted
from trierarch.config.findings import Rejected, Remark
from trierarch.config.folder import Folder, FolderChange, FolderState, Steps, update_folder
from trierarch.config.mesh_files import read_mesh_config, read_mesh_networks
from trierarch.config.objects import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actors.mailbox import Mailbox
    from actors.messages import ToIntake
    from actors.source_messages import ToSource
    from trierarch.config.admission import Refused
    from trierarch.config.findings import Finding
    from trierarch.config.objects import AnyObject
    from trierarch.settings import Settings

DOCUMENTS_PER_TURN = 50
"""After so many documents a worker thread comes back, so that the actor can be stopped."""

ResultT = TypeVar("ResultT")

Decode: TypeAlias = "Callable[[bytes, Origin, str], Admitted | Refused]"
"""Reads a file that holds one object, of a cluster."""

log = get_logger("file_source")


# --- what to read ----------------------------------------------------------------------------------------------------
class Reader(Protocol):
    """Reads one source; keeps what it said. Its steps are taken in a worker thread, one at a time."""

    @property
    def objects(self) -> Collection[AnyObject]:
        """Everything that the source says."""
        ...

    def read(self, watch: Watch) -> Steps[FolderChange]:
        """What has changed since the last time, yielding after each document. Raises `SourceMissing`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source and its reader, which outlives the actor: what a broken file said last would be lost with it."""

    name: str
    path: Path
    reader: Reader


def plan_sources(settings: Settings) -> tuple[Source, ...]:
    """The sources that the settings name. Raises `SourceMissing` if one of them is not there."""
    cluster = settings.cluster_id
    sources = [_folder("config", settings.config, cluster)]
    if settings.mesh_config:
        sources.append(_file("mesh-config", settings.mesh_config, cluster, read_mesh_config))
    if settings.networks_config:
        sources.append(_file("networks-config", settings.networks_config, cluster, read_mesh_networks))
    for name, path in settings.clusters:
        sources.append(_folder(f"cluster-{name}", path, name, kubernetes_only=True))
    for source in sources:
        if not source.path.exists():
            raise SourceMissing(f"{source.path}: there is no such file or folder")
    return tuple(sources)


def _folder(name: str, path: str, cluster: str, *, kubernetes_only: bool = False) -> Source:
    folder = Folder(source=name, cluster=cluster, kubernetes_only=kubernetes_only)
    return Source(name=name, path=Path(path), reader=FolderReader(folder, Path(path)))


def _file(name: str, path: str, cluster: str, decode: Decode) -> Source:
    return Source(name=name, path=Path(path), reader=FileReader(name, Path(path), cluster, decode))


class FolderReader:
    """A folder of objects."""

    def __init__(self, folder: Folder, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._stamps: Stamps = {}
        self._state = FolderState()

    @property
    def objects(self) -> Collection[AnyObject]:
        """All objects in force."""
        return self._state.objects.values()

    def read(self, watch: Watch) -> Steps[FolderChange]:
        """What has changed since the last time."""
        look = look_at_folder(self._folder.source, self._root, self._stamps, watch)
        yield
        self._state, change = yield from update_folder(self._folder, self._state, look.contents)
        self._stamps = look.stamps
        return change


class FileReader:
    """A file that holds one object. While it is malformed its last good version stays."""

    def __init__(self, source: str, path: Path, cluster: str, decode: Decode) -> None:
        self._source = source
        self._path = path
        self._cluster = cluster
        self._decode = decode
        self._stamp: Stamp | None = None
        self._change = FolderChange()
        self.objects: tuple[AnyObject, ...] = ()

    def read(self, watch: Watch) -> Steps[FolderChange]:
        """What has changed since the last time."""
        seen = look_at_file(self._path, self._stamp, watch)
        yield
        self._change = replace(self._change, upserts=())
        if seen is not None:
            origin = Origin(source=self._source, path=self._path.name, line=1)
            self._change = self._take(self._decode(seen.content, origin, self._cluster))
            self._stamp = seen.stamp
        return self._change

    def _take(self, verdict: Admitted | Refused) -> FolderChange:
        rejected = tuple(each for each in verdict.findings if isinstance(each, Rejected))
        remarks = tuple(each for each in verdict.findings if isinstance(each, Remark))
        before, after = self.objects, (verdict.object,) if isinstance(verdict, Admitted) else self.objects
        self.objects = after
        new = [each.digest for each in after] != [each.digest for each in before]
        return FolderChange(upserts=after if new else (), rejected=rejected, remarks=remarks)


# --- the actor -------------------------------------------------------------------------------------------------------
async def run(
    inbox: Mailbox[ToSource],
    *,
    intake: Mailbox[ToIntake],
    source: Source,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Read and watch for ever."""
    task_status.started()  # intake, which takes what is sent, starts later
    with open_watch() as watch:
        teller = FileSource(source, inbox, intake)
        await teller.look(watch)
        while True:
            match await _wake(inbox, watch, POLLED if teller.missing else UNTOLD):
                case ResendAll():
                    await teller.look(watch, everything=True)
                case None:
                    await teller.look(watch)
                case never:
                    assert_never(never)


class FileSource:
    """The state of one life of the actor. `missing`: why the source cannot be read now, or ""."""

    def __init__(self, source: Source, inbox: Mailbox[ToSource], intake: Mailbox[ToIntake]) -> None:
        self.missing = ""
        self._source = source
        self._inbox = inbox
        self._intake = intake
        self._reader = source.reader
        self._findings: tuple[Finding, ...] = ()
        self._told = False
        self._problem = ""

    async def look(self, watch: Watch, *, everything: bool = False) -> None:
        """Read what may have changed and tell it; the first time, and if asked for, tell everything."""
        began = trio.current_time()
        change = await self._read(watch)
        self._report_problem(watch)
        if change is None and not self._told:
            return  # nothing is known yet
        before = self._findings
        if change is not None:
            self._findings = (*change.rejected, *change.remarks)
        if everything or not self._told:
            await self._tell_everything(began)
        elif change is not None and (change.upserts or change.deletes or self._findings != before):
            await self._tell(change, began)

    async def _read(self, watch: Watch) -> FolderChange | None:
        """What has changed; None if the source is not there."""
        try:
            change = await _in_thread(self._reader.read(watch))
        except SourceMissing as error:
            if not self.missing:
                log.error("source_vanished", source=self._source.name, reason=str(error))
            self.missing = str(error)
            return None
        if self.missing:
            log.info("source_returned", source=self._source.name)
        self.missing = ""
        for each in change.unknown_kinds:
            origin = each.origin
            log.info("kind_skipped", api_version=each.api_version, kind=each.kind, file=origin.path, line=origin.line)
        return change

    def _report_problem(self, watch: Watch) -> None:
        if watch.problem and not self._problem:
            log.warning("watching_fell_back", source=self._source.name, reason=watch.problem)
        self._problem = watch.problem

    async def _tell_everything(self, began: float) -> None:
        objects = tuple(self._reader.objects)
        while self._inbox.receive_nowait() is not None:
            pass  # whoever has asked by now will get what is sent here
        log.info(
            "source_read",
            source=self._source.name,
            objects=len(objects),
            findings=len(self._findings),
            seconds=round(trio.current_time() - began, 6),
        )
        message = SourceChanged(
            source=self._source.name, upserts=objects, full=True, findings=self._findings, seen_at=began
        )
        await self._intake.send(message)
        self._told = True

    async def _tell(self, change: FolderChange, began: float) -> None:
        message = SourceChanged(
            source=self._source.name,
            upserts=change.upserts,
            deletes=change.deletes,
            findings=self._findings,
            seen_at=began,
        )
        await self._intake.send(message)


async def _wake(inbox: Mailbox[ToSource], watch: Watch, longest: float) -> ToSource | None:
    """Wait for a message, or (None) until it is worth looking."""
    message = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_told, watch, longest, nursery.cancel_scope)
        message = await inbox.receive()
        nursery.cancel_scope.cancel()
    return message


async def _cancel_when_told(watch: Watch, longest: float, scope: trio.CancelScope) -> None:
    await watch.wait(longest)
    scope.cancel()


@dataclass(frozen=True, slots=True)
class _Finished(Generic[ResultT]):
    result: ResultT


async def _in_thread(steps: Steps[ResultT]) -> ResultT:
    """Take all steps in a worker thread, a few at a time: in between, the actor may be stopped."""
    while True:
        finished = await trio.to_thread.run_sync(_take_steps, steps)
        if finished is not None:
            return finished.result


def _take_steps(steps: Steps[ResultT]) -> _Finished[ResultT] | None:
    for _ in range(DOCUMENTS_PER_TURN):
        try:
            next(steps)
        except StopIteration as stop:
            return _Finished(stop.value)
        time.sleep(0)  # the event loop may have the interpreter
    return None
