"""`trierarch validate PATH`: check configuration files without a control plane."""

from __future__ import annotations

import json
from pathlib import Path

import click

from trierarch.cli.checking import Checked, check_path, finding_line
from trierarch.config.findings import finding_fields


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="warnings count as errors")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(paths: tuple[Path, ...], strict: bool, output: str) -> None:
    """Check the objects in PATHS (files or folders). Exit code 1 if one would not be in force."""
    results = [check_path(path) for path in paths]
    if output == "json":
        findings = [finding_fields(finding) for result in results for finding in result.findings]
        click.echo(json.dumps(findings, indent=2))
    else:
        for result in results:
            _print(result)
    if not all(result.is_good(strict=strict) for result in results):
        raise SystemExit(1)


def _print(result: Checked) -> None:
    for finding in result.findings:
        click.echo(finding_line(finding))
    for kind in result.unknown_kinds:
        click.echo(f"{kind}: this kind is not understood, its objects are skipped")
    click.echo(f"good objects: {result.objects}")
    if result.rejected:
        click.echo(f"not in force, unless an older version is: {', '.join(result.rejected)}")
