"""What tests of file sources have in common."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(tmp_path):
    """An empty folder of configuration."""
    folder = tmp_path / "mesh"
    folder.mkdir()
    return folder
