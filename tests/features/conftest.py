"""Feature tests run the whole tree of actors in one process: what a user does, and what a proxy then has."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def lines():
    """What was logged."""
    with capture_logs() as captured:
        yield captured
