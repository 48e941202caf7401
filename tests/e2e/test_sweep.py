"""A tenth of all known configurations, chosen by hash, shown to real Envoys: they take all of it. `make envoy-sweep`
shows the rest.
"""

import pytest
import trio

from tests.conformance.cases import shared_folder
from tests.e2e.sweep import is_in_share, sweep
from tests.e2e.sweep_configurations import load_configurations

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
