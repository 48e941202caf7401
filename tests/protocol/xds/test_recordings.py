"""The session beside recordings of what a real istiod answered: conformance data from outside the repository."""

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.protocol.xds.replay import Replay

DATA = Path(os.environ.get("TRIERARCH_CASES", Path(__file__).parents[4] / "shared")) / "oracle" / "protocol"
FAMILIES = ("sotw-", "delta-", "push-", "types-ecds", "types-nds", "types-sds")
TAKEN_BACK = {"delta-unsubscribe-wildcard-leaves", "delta-wildcard-then-names"}
"""Taking back names that came by the wildcard alone: istiod answers with everything, we with nothing, by decision."""


def read_head(scenario):
    """The first document of a scenario: its streams and steps."""
    return next(yaml.safe_load_all((DATA / "scenarios" / f"{scenario}.yaml").read_text()))


def find_streams():
    """Every stream of every scenario about types that are not refused: (scenario, stream)."""
    paths = sorted(path for family in FAMILIES for path in (DATA / "scenarios").glob(f"{family}*.yaml"))
    return [(path.stem, stream) for path in paths for stream in read_head(path.stem)["streams"]]


STREAMS = find_streams()


@pytest.mark.skipif(not STREAMS, reason=f"no recordings of istiod in {DATA}: set TRIERARCH_CASES to where they are")
@pytest.mark.parametrize(("scenario", "stream"), STREAMS)
def test_as_istiod_did(scenario, stream):
    """Our session answers a recorded stream as istiod did, and its pushes have the same effect."""
    head = read_head(scenario)
    recorded = json.loads((DATA / "expected" / f"{scenario}.json").read_text())["steps"]
    events = [step["streams"].get(stream, []) for step in recorded]
    is_delta = head["streams"][stream].get("delta", False)
    replay = Replay(stream, is_delta=is_delta, taken_back=scenario in TAKEN_BACK)
    replay.look_around(head["steps"], events)
    for step, came in zip(head["steps"], events, strict=True):
        replay.play(step, came)
