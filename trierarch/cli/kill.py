"""`trierarch kill ACTOR`: kill one actor of a running control plane that was started with `--allow-kill`."""

from __future__ import annotations

from urllib.parse import quote

import click

from trierarch.cli.debug_client import http_option, request


@click.command()
@click.argument("actor")
@http_option
def command(actor: str, http_addr: str) -> None:
    """Kill ACTOR as a crash would; its supervisor restarts it. Names are those of /debug/actors."""
    answer = request("POST", http_addr, f"/debug/actors/{quote(actor, safe='')}/kill")
    click.echo(answer.text.strip())
