"""`trierarch` itself: what its help says, and what that costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from click.testing import CliRunner

from trierarch.cli.main import COMMANDS, main


def test_the_help_lists_all_commands():
    """Each with its line of the table."""
    listed = CliRunner().invoke(main, ["--help"]).output.partition("Commands:\n")[2].splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in listed] == list(COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_there(name):
    """Under its name, with a help of its own."""
    assert import_module(f"trierarch.cli.{name}").command.help
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_a_command_pays_for_no_other():
    """Neither the help nor the commands that ask a running control plane import what serves."""
    ask = "import sys; from trierarch.cli.main import main; main(sys.argv[1:], standalone_mode=False); {}"
    check = "assert not {'trio', 'grpclib', 'supervisor'} & sys.modules.keys()"
    for arguments in (["--help"], ["why", "--help"]):
        subprocess.run([sys.executable, "-c", ask.format(check), *arguments], check=True, capture_output=True)


def test_an_unknown_command_is_an_error():
    """With exit code 2."""
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
