"""What tests of supervisors have in common: children that play a script, and a handle for the tree."""

from __future__ import annotations

import pytest

from actors.supervision import SupervisorHandle
from tests.actors.supervision.scripted_children import Stage


@pytest.fixture
def stage():
    """An empty stage."""
    return Stage()


@pytest.fixture
def handle():
    """A handle for the tree of a test."""
    return SupervisorHandle()
