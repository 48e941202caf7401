"""`trierarch serve`: run the control plane until a signal ends it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click
import trio

import supervisor
from actors.authority_files import BadAuthority
from actors.logs import configure_logs
from actors.static_supervisor import IntensityExceeded
from trierarch.cli import descriptors
from trierarch.cli.checking import check_path, finding_line
from trierarch.settings import BadSetting, Settings, parse_settings, setting_infos

CANNOT_START, GAVE_UP = 2, 3


def _options(command: click.Command) -> click.Command:
    """An option for each setting that has a flag, in the order of the settings."""
    for name, default, info in setting_infos():
        if info.flag:
            command.params.append(
                click.Option(
                    [info.flag, name],
                    is_flag=isinstance(default, bool),
                    multiple=isinstance(default, tuple),
                    default=None,
                    envvar=None,
                    help=f"{info.about} [{_shown(default)}{f'; variable {info.variable}' if info.variable else ''}]",
                )
            )
    return command


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default) if default else "none"


@click.command()
def command(**options: object) -> None:
    """Serve xDS for the mesh that a folder describes."""
    settings = read_settings(options)
    configure_logs(settings.log_level)
    try:
        trio.run(serve, settings)
    except* BadAuthority as group:
        click.echo(f"trierarch: {group.exceptions[0]}", err=True)
        raise SystemExit(CANNOT_START) from None
    except* IntensityExceeded as group:
        click.echo(f"trierarch cannot go on: {group.exceptions[0]}", err=True)
        raise SystemExit(GAVE_UP) from None


_options(command)


def read_settings(options: dict[str, object]) -> Settings:
    """Flags over environment over defaults; ends the command with exit code 2 where they make no sense."""
    flags = {name: _text(value) for name, value in options.items() if value not in (None, ())}
    try:
        settings = parse_settings(flags, os.environ)
    except BadSetting as error:
        raise click.UsageError(str(error)) from None
    if not settings.config:
        raise click.UsageError("say which folder: --config DIR")
    missing = [path for path in folders(settings) if not Path(path).is_dir()]
    missing += [path for path in files(settings) if path and not Path(path).is_file()]
    for path in missing:
        click.echo(f"trierarch: {path}: there is no such folder or file", err=True)
    if missing:
        raise SystemExit(CANNOT_START)
    if settings.strict:
        _refuse_bad_configuration(settings)
    return settings


def folders(settings: Settings) -> tuple[str, ...]:
    """The folders that are served."""
    return (settings.config, *(folder for _, folder in settings.clusters))


def files(settings: Settings) -> tuple[str, ...]:
    """The single files that are read; "" where none is named."""
    certificates = (settings.tls_cert_file, settings.tls_key_file, settings.ca_cert_file)
    return (settings.mesh_config, settings.networks_config, *certificates)


def _refuse_bad_configuration(settings: Settings) -> None:
    """With `--strict`, nothing is served while something is rejected."""
    for path in folders(settings):
        checked = check_path(Path(path))
        if not checked.is_good(strict=False):
            for finding in checked.findings:
                click.echo(finding_line(finding), err=True)
            raise SystemExit(CANNOT_START)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


async def serve(settings: Settings) -> None:
    """Run the system; SIGTERM and SIGINT drain it."""
    system = supervisor.build_system(settings, descriptors=descriptors.raise_limit())
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run, system)
            async for _ in signals:
                break
            async with trio.open_nursery() as drains:
                for endpoint in (system.xds, system.secure):
                    drains.start_soon(endpoint.drain)
            nursery.cancel_scope.cancel()
