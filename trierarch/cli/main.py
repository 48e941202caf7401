"""The entry point: one group of commands, each in a module of its own that is imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "serve": "run the control plane",
    "bootstrap": "print the bootstrap of a stock Envoy",
    "identity": "keep the certificate of a workload in files",
    "why": "say why a proxy was pushed",
    "kill": "kill an actor, to see it recover",
    "validate": "check configuration files",
}


class Commands(click.Group):
    """Finds a command by importing `trierarch.cli.NAME`, so that no command pays for another's imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All command names, in the order of the table."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, from the table: click would import every command for its first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"trierarch.cli.{cmd_name}").command
        return command


@click.command(cls=Commands)
@click.version_option(package_name="trierarch")
def main() -> None:
    """An Istio-compatible service-mesh control plane that says why it pushed."""
