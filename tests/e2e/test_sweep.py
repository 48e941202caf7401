"""A tenth of all known configurations, chosen by hash, shown to real Envoys: they take all of it. `make envoy-sweep`
shows the rest.
"""

from functools import partial

import pytest
import trio
from envoy.config.cluster.v3.cluster_pb2 import Cluster

from protocol.xds.resources import EMPTY, Part, ResourceSet, build_resource
from tests.conformance.cases import shared_folder
from tests.e2e.shops import next_network
from tests.e2e.sweep import is_in_share, sweep
from tests.e2e.sweep_configurations import load_configurations
from tests.e2e.sweep_stage import open_audience
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE

pytestmark = pytest.mark.envoy

TENTH = 10


def test_a_tenth_is_accepted(envoy, tmp_path):
    """Nothing is rejected, and whatever is sent comes into use."""
    cases = [case for case in load_configurations() if is_in_share(case, TENTH)]
    if not cases:
        pytest.skip(f"no configurations at {shared_folder()}: set TRIERARCH_CASES to where they are")
    report = trio.run(sweep, envoy, cases, tmp_path)
    assert [str(refusal) for refusal in report.refusals] == []
    assert report.shown.total() >= len(cases) / 2


@pytest.mark.parametrize("delta", [True, False], ids=["delta", "sotw"])
def test_a_refusal_is_noticed(delta, envoy, tmp_path):
    """What an Envoy rejects is told in its words, and what it gets next is judged by itself."""
    wrong = Cluster(name="wrong", type=Cluster.DiscoveryType.EDS).SerializeToString()  # it lacks where to ask
    right = Cluster(name="right", type=Cluster.DiscoveryType.STATIC).SerializeToString()

    async def judge_both() -> list[list[str]]:
        async with trio.open_nursery() as nursery:
            start = partial(open_audience, envoy, tmp_path, "judge", f"{next_network()}.1", delta=delta)
            audience = await nursery.start(start)
            judged = [await audience.judge(_clusters("wrong", wrong)), await audience.judge(_clusters("right", right))]
            nursery.cancel_scope.cancel()
        return judged

    (refusal,), accepted = trio.run(judge_both)
    assert refusal.startswith("CDS: ")
    assert "wrong" in refusal
    assert accepted == []


def _clusters(name, body):
    """A configuration of just this cluster."""
    clusters = ResourceSet(Part([build_resource(name, body)]))
    return {CLUSTER: clusters, ENDPOINT: EMPTY, LISTENER: EMPTY, ROUTE: EMPTY}
