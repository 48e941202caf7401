"""`trierarch bootstrap`: print the bootstrap of a stock Envoy, so that it finds its control plane (platform.md §5)."""

from __future__ import annotations

import click
import yaml

from trierarch.envoy.bootstrap import CONTROL_PLANE_NAME, Credentials, IdentityFolder, TokenFile, build_bootstrap


@click.command()
@click.option("--id", "node_id", required=True, help="node id: TYPE~IP~POD.NAMESPACE~DOMAIN")
@click.option("--xds", default="127.0.0.1:15010", show_default=True, help="address of the control plane")
@click.option("--xds-name", default=CONTROL_PLANE_NAME, show_default=True, help="the DNS name in its certificate")
@click.option("--token", default="", metavar="FILE", help="call over TLS with the token in this file")
@click.option("--roots", default="", metavar="FILE", help="with --token: PEM roots that verify the control plane")
@click.option("--identity", default="", metavar="DIR", help="call over TLS with what `trierarch identity` keeps there")
@click.option("--mode", type=click.Choice(["delta", "sotw"]), default="delta", show_default=True, help="xDS protocol")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="node metadata; may be repeated")
@click.option("--admin", default="", metavar="HOST:PORT", help="address of Envoy's admin page; none by default")
def command(
    node_id: str,
    xds: str,
    xds_name: str,
    token: str,
    roots: str,
    identity: str,
    mode: str,
    metadata: tuple[str, ...],
    admin: str,
) -> None:
    """Print a bootstrap as YAML."""
    bootstrap = build_bootstrap(
        node_id=node_id,
        xds=xds,
        delta=mode == "delta",
        metadata=dict(_pair(item) for item in metadata),
        admin=admin,
        credentials=_credentials(token, roots, identity),
        xds_name=xds_name,
    )
    click.echo(yaml.safe_dump(bootstrap, sort_keys=False), nl=False)


def _credentials(token: str, roots: str, identity: str) -> Credentials | None:
    match bool(token), bool(roots), bool(identity):
        case False, False, False:
            return None
        case True, True, False:
            return TokenFile(roots=roots, token=token)
        case False, False, True:
            return IdentityFolder(path=identity)
        case _:
            raise click.UsageError("TLS takes either --token and --roots, or --identity")


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise click.UsageError(f"--metadata {item}: NAME=VALUE is expected")
    return name, value
