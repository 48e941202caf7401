"""`trierarch bootstrap`: what it makes of its options."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from trierarch.cli.bootstrap import command

NODE = ("--id", "sidecar~10.0.0.7~web-1.shop~shop.svc.cluster.local")


def printed(*words):
    """The bootstrap that is printed."""
    return yaml.safe_load(CliRunner().invoke(command, [*NODE, *words], catch_exceptions=False).output)


def test_without_credentials_it_is_plaintext():
    """The control plane is a cluster without TLS."""
    (cluster,) = printed()["static_resources"]["clusters"]
    assert "transport_socket" not in cluster


def test_with_a_token():
    """Files are named as they were given."""
    service = printed("--token", "t", "--roots", "r")["dynamic_resources"]["ads_config"]["grpc_services"][0]
    assert service["google_grpc"]["channel_credentials"]["ssl_credentials"]["root_certs"] == {"filename": "r"}


def test_with_an_identity():
    """The cluster has TLS, for the name that was given."""
    (cluster,) = printed("--identity", "/id", "--xds-name", "plane.example")["static_resources"]["clusters"]
    assert cluster["transport_socket"]["typed_config"]["sni"] == "plane.example"


@pytest.mark.parametrize("words", [("--token", "t"), ("--roots", "r"), ("--identity", "i", "--token", "t")])
def test_half_of_it_is_an_error(words):
    """It says what goes together."""
    result = CliRunner().invoke(command, [*NODE, *words])
    assert result.exit_code == 2
    assert "--token and --roots, or --identity" in result.output
