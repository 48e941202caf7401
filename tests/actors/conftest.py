"""What all tests of actors have in common."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def lines():
    """What was logged."""
    with capture_logs() as captured:
        yield captured
