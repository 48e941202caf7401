"""`trierarch why PROXY`: which change of which object caused the last pushes to a proxy, and what came of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from trierarch.cli.debug_client import http_option, request

Push = dict[str, Any]


@click.command()
@click.argument("proxy")
@click.option("--last", default=5, show_default=True, help="as many pushes")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@http_option
def command(proxy: str, last: int, output: str, http_addr: str) -> None:
    """Say why PROXY (a part of its id, such as `web-7d.shop`) was pushed, or why not."""
    pushes: list[Push] = request("GET", http_addr, "/debug/pushes", proxyID=proxy, limit=str(last)).json()
    if output == "json":
        click.echo(json.dumps(pushes, indent=2))
    elif not pushes:
        click.echo(f"nothing is known of pushes to a proxy like {proxy!r}")
    else:
        click.echo("\n".join(describe_push(push) for push in pushes))


def describe_push(push: Push) -> str:
    """A push in a few lines: head, causes, what was sent, what was not and why, how long each stage took."""
    lines = [f"{_clock(push['finished'])} {push['proxy']}: {push['outcome']} (snapshot {push['snapshot']})"]
    lines += [f"  because  {text}" for text in _causes(push)]
    lines += [f"  sent     {_sent(item)}" for item in push["sent"]]
    lines += [f"  skipped  {text}" for text in _skipped(push)]
    if push["stages"]:
        lines.append("  took     " + ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in push["stages"].items()))
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _causes(push: Push) -> list[str]:
    texts = [_cause(cause) for cause in push["causes"]]
    if push["more_causes"]:
        texts.append(f"and {push['more_causes']} more changes")
    return texts or [f"reason {reason}" for reason in push["reasons"]]


def _cause(cause: Push) -> str:
    if cause["event"] == "resynced":
        return f"everything was sent again for {cause['source']} (cause {cause['id']})"
    return f"{cause['kind']} {_place(cause)} {cause['event']} (in {cause['source']}, cause {cause['id']})"


def _skipped(push: Push) -> list[str]:
    """One line for each reason, with all that was skipped for it."""
    reasons: dict[str, list[str]] = {}
    for what, why in push["skipped"].items():
        reasons.setdefault(why, []).append(what)
    return [f"{', '.join(what)}: {why}" for why, what in reasons.items()]


def _place(cause: Push) -> str:
    return f"{cause['namespace']}/{cause['name']}" if cause["namespace"] else str(cause["name"])


def _sent(item: Push) -> str:
    removed = f", {item['removed']} removed" if item["removed"] else ""
    error = f"; rejected: {item['error']}" if item["error"] else ""
    return f"{item['type']}: {item['sent']} resources{removed}, {item['size']} bytes, nonce {item['nonce']}{error}"
