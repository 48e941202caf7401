"""`trierarch validate PATH`: check configuration files without a control plane."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import click

from trierarch.cli.checking import Checked, check_mesh_config, check_path, check_together, finding_line
from trierarch.config.findings import finding_fields
from trierarch.settings import Settings


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--mesh-config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="a file with MeshConfig"
)
@click.option("--domain", default=Settings().domain, show_default=True, help="DNS suffix of services")
@click.option("--strict", is_flag=True, help="warnings count as errors")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(paths: tuple[Path, ...], mesh_config: Path | None, domain: str, strict: bool, output: str) -> None:
    """Check the objects in PATHS (files or folders), each by itself and all together as one mesh.

    Exit code 1 if one would not be in force.
    """
    results = [check_mesh_config(mesh_config)] if mesh_config else []
    results += [check_path(path) for path in paths]
    objects = tuple(chain.from_iterable(result.objects for result in results))
    whole = Checked(objects=objects, findings=check_together(objects, domain=domain), unknown_kinds=())
    if output == "json":
        findings = [finding_fields(finding) for result in (*results, whole) for finding in result.findings]
        click.echo(json.dumps(findings, indent=2))
    else:
        for result in results:
            _print(result)
        _print_findings(whole)
    if not all(result.is_good(strict=strict) for result in (*results, whole)):
        raise SystemExit(1)


def _print_findings(result: Checked) -> None:
    for finding in result.findings:
        click.echo(finding_line(finding))


def _print(result: Checked) -> None:
    _print_findings(result)
    for kind in result.unknown_kinds:
        click.echo(f"{kind}: this kind is not understood, its objects are skipped")
    click.echo(f"good objects: {len(result.objects)}")
    if result.rejected:
        click.echo(f"not in force, unless an older version is: {', '.join(result.rejected)}")
