"""Traffic through real Envoys, feature by feature: what each shows is told in the tables of `traffic/`.

One control plane and two sidecars serve all cases one after another; each case is an edit of the mesh.
"""

from contextlib import ExitStack

import pytest

from tests.e2e.traffic.balancing import BALANCING
from tests.e2e.traffic.discovery import DISCOVERY
from tests.e2e.traffic.layer4 import LAYER4
from tests.e2e.traffic.matching import MATCHING
from tests.e2e.traffic.resilience import RESILIENCE
from tests.e2e.traffic.routing import ROUTING
from tests.e2e.traffic.town import Town
from tests.e2e.traffic.upstream import UPSTREAM

pytestmark = pytest.mark.envoy

CASES = (*MATCHING, *ROUTING, *RESILIENCE, *BALANCING, *LAYER4, *UPSTREAM, *DISCOVERY)


@pytest.fixture(scope="module")
def town(tmp_path_factory, envoy):
    """Programs, a control plane and two sidecars, for all cases."""
    folder = tmp_path_factory.mktemp("town")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", "true")  # else they take interception
        yield Town(folder, envoy, stack)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_traffic(case, town):
    """Requests go where the case says, and are answered as it says; nothing is rejected by anybody."""
    town.settle(case)
    assert town.complaints(case) == []
