"""How commands ask a running control plane: its debug pages over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import httpx

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def http_option(command: CommandT) -> CommandT:
    """The option that says where the debug pages are."""
    option = click.option(
        "--http-addr", default="127.0.0.1:8080", show_default=True, help="the control plane's debug address"
    )
    decorated: CommandT = option(command)
    return decorated


def request(method: str, address: str, path: str, **parameters: str) -> httpx.Response:
    """One request; an answer other than 2xx, or none, ends the command with its message and exit code 1."""
    try:
        response = httpx.request(method, f"http://{address}{path}", params=parameters, timeout=10)
    except httpx.TransportError as error:
        raise click.ClickException(f"no answer from {address}: {error}") from None
    if response.is_error:
        raise click.ClickException(response.text.strip() or f"{path}: {response.status_code}")
    return response
