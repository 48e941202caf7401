"""Stories of clients and servers, told in the `.txt` files beside this one.

`GOLDEN=1 pytest tests/interaction` writes what comes of the commands into the files: read the difference, and commit
only what you can explain.
"""

import os
from pathlib import Path

import pytest

from tests.interaction.scenario import parse, play
from tests.interaction.session_stage import SessionStage

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_story(path):
    """What comes of each command of a story is what the story says."""
    told = path.read_text()
    played = play(told, SessionStage().run)
    if os.environ.get("GOLDEN"):
        path.write_text(played)
    else:
        assert played == told


def test_a_block_must_have_one_command():
    """A story that is not well written is refused, not passed over."""
    with pytest.raises(ValueError, match="expected one command"):
        parse("connect sotw\nconnect delta\n----\nnothing\n")


def test_there_are_stories():
    """The files are found where they are."""
    assert len(FILES) >= 10
