"""Crash-only: whatever is killed when, the last edit is built, and no cause is lost on the way to a snapshot.

Intake and the debouncer are real and supervised; the source and the builder are played.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import trio
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from trio.testing import MockClock

from actors import debouncer, intake
from actors.mailbox import Mailbox
from actors.messages import BuilderIdle, CausesSettled, ResendConfig, SourceChanged
from actors.metrics import Metrics
from actors.static_supervisor import supervise
from actors.supervision import SupervisorHandle
from actors.tree import ChildSpec, SupervisorSpec
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.push.debounce import DebounceOptions


class Pipeline:
    """Source, intake, debouncer, builder. `truth` is what the source would say; `built` are the orders carried out."""

    def __init__(self, endpoints) -> None:
        self.truth = {}
        self.built = []
        self.handle = SupervisorHandle()
        self._versions = count(1)
        self._source = Mailbox("config")
        self._intake = Mailbox("intake")
        self._debouncer = Mailbox("debouncer")
        self._builder = Mailbox("snapshot_builder", flow=1)
        self._options = DebounceOptions(endpoints=endpoints)

    def tree(self):
        """The supervised part; it may be killed any number of times."""
        children = (
            ChildSpec(name="source", start=self._run_source),
            ChildSpec(
                name="intake",
                start=partial(
                    intake.run, self._intake, debouncer=self._debouncer, sources={"config": self._source},
                    metrics=Metrics(), memory=intake.Memory(), ids=count(1),
                ),
            ),
            ChildSpec(
                name="debouncer",
                start=partial(
                    debouncer.run, self._debouncer, intake=self._intake, builder=self._builder, options=self._options
                ),
            ),
            ChildSpec(name="snapshot_builder", start=self._run_builder),
        )  # fmt: skip
        return SupervisorSpec(name="pipeline", children=children, intensity=1000)

    async def edit(self, kind, name):
        """The source sees another version of an object."""
        key, version = ObjectKey("Kubernetes", kind, "shop", name), str(next(self._versions))
        edited = ConfigObject(key=key, spec=version, digest=version.encode(), origin=Origin(source="config"))
        self.truth[key] = edited
        await self._intake.send(SourceChanged(source="config", upserts=(edited,), seen_at=trio.current_time()))

    async def _run_source(self, *, task_status):
        task_status.started()
        while True:
            await self._intake.send(
                SourceChanged(
                    source="config", upserts=tuple(self.truth.values()), full=True, seen_at=trio.current_time()
                )
            )
            await self._source.receive()

    async def _run_builder(self, *, task_status):
        self._debouncer.post(BuilderIdle())
        self._intake.post(ResendConfig(asked_by="snapshot_builder"))
        task_status.started()
        while True:
            order = await self._builder.receive()
            await trio.sleep(0.05)
            self.built.append(order)
            self._debouncer.post(BuilderIdle())
            self._intake.post(CausesSettled(causes=order.request.causes))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["VirtualService", "EndpointSlice"]), st.sampled_from("ab")),
        st.tuples(st.just("kill"), st.sampled_from(["source", "intake", "debouncer", "snapshot_builder"])),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.12, 0.2, 8.0])),
    ),
    max_size=25,
)


async def play(pipeline, steps):
    """Take the steps, then let everything come to rest."""
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, pipeline.tree(), handle=pipeline.handle))
        for step, subject in steps:
            match step:
                case "kill":
                    pipeline.handle.kill(subject)
                case "wait":
                    await trio.sleep(subject)
                case kind:
                    await pipeline.edit(kind, subject)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()


@given(steps=STEPS, endpoints=st.booleans())
def test_kills_lose_nothing(steps, endpoints):
    """After any edits and kills, the newest view is built, and each change has been among the causes of some build."""
    pipeline = Pipeline(endpoints)
    with capture_logs() as lines:
        trio.run(play, pipeline, steps, clock=MockClock(autojump_threshold=0))
    view = pipeline.built[-1].view
    built = {key: each.spec for table in view.tables.values() for key, each in table.items()}
    assert built == {key: each.spec for key, each in pipeline.truth.items()}
    told = {cause.id for order in pipeline.built for cause in order.request.causes.kept}
    changes = [line for line in lines if line["event"] == "config_changed"]
    assert told >= {number for line in changes for number in range(line["first_cause"], line["last_cause"] + 1)}
