"""The types that a stream may ask for."""

import pytest

from trierarch.envoy.types import CLUSTER, TYPE_RULES, needs_identity


@pytest.mark.parametrize(
    ("type_url", "needed"),
    [
        ("istio.io/debug", True),
        ("istio.io/debug/config_dump", True),
        ("networking.istio.io/v1/VirtualService", True),
        ("security.istio.io/v1/AuthorizationPolicy", True),
        (CLUSTER, False),
        ("type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap", False),
        ("", False),
    ],
)
def test_which_types_need_an_identity(type_url, needed):
    """What shows the mesh to operators does; resources for proxies, known or not, do not (xds-server.md §6.1)."""
    assert needs_identity(type_url) is needed


def test_every_resource_type_is_open_to_any_client():
    """No type that we serve to proxies is taken for one of operators."""
    assert not any(map(needs_identity, TYPE_RULES))
