"""`trierarch bootstrap`: print the bootstrap of a stock Envoy, so that it finds its control plane (platform.md §5)."""

from __future__ import annotations

import click
import yaml

from trierarch.envoy.bootstrap import build_bootstrap


@click.command()
@click.option("--id", "node_id", required=True, help="node id: TYPE~IP~POD.NAMESPACE~DOMAIN")
@click.option("--xds", default="127.0.0.1:15010", show_default=True, help="address of the control plane")
@click.option("--mode", type=click.Choice(["delta", "sotw"]), default="delta", show_default=True, help="xDS protocol")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="node metadata; may be repeated")
@click.option("--admin", default="", metavar="HOST:PORT", help="address of Envoy's admin page; none by default")
def command(node_id: str, xds: str, mode: str, metadata: tuple[str, ...], admin: str) -> None:
    """Print a bootstrap as YAML."""
    pairs = dict(_pair(item) for item in metadata)
    bootstrap = build_bootstrap(node_id=node_id, xds=xds, delta=mode == "delta", metadata=pairs, admin=admin)
    click.echo(yaml.safe_dump(bootstrap, sort_keys=False), nl=False)


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise click.UsageError(f"--metadata {item}: NAME=VALUE is expected")
    return name, value
