"""The bootstrap that we print, and what a real Envoy says to it."""

import os
import subprocess

import pytest
import yaml

from tests.envoy.golden import FOLDER
from trierarch.envoy.bootstrap import CONTROL_PLANE_NAME, IdentityFolder, TokenFile, build_bootstrap
from trierarch.push.model import Locality

NODE = "sidecar~10.1.0.9~cart-1.shop~shop.svc.cluster.local"


def _full():
    return build_bootstrap(
        node_id=NODE,
        xds="127.0.0.1:15010",
        metadata={"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "cart"}},
        locality=Locality("eu", "eu-a"),
        admin="127.0.0.1:15000",
    )


def test_the_whole_bootstrap():
    """As YAML, in the order in which a person reads it; GOLDEN=1 rewrites the golden."""
    text = yaml.safe_dump(_full(), sort_keys=False)
    path = FOLDER / "bootstrap.yaml"
    if os.environ.get("GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_state_of_the_world_is_the_other_protocol():
    """The same stream, another type of API."""
    stream = build_bootstrap(node_id=NODE, xds="127.0.0.1:1", delta=False)["dynamic_resources"]["ads_config"]
    assert stream["api_type"] == "GRPC"


@pytest.mark.parametrize(
    ("xds", "kind", "host"),
    [
        ("127.0.0.1:15010", "STATIC", "127.0.0.1"),
        ("[::1]:15010", "STATIC", "::1"),
        ("istiod.istio-system.svc:15010", "STRICT_DNS", "istiod.istio-system.svc"),
    ],
)
def test_the_control_plane_may_have_a_name(xds, kind, host):
    """A host name is resolved, an address is not."""
    cluster = build_bootstrap(node_id=NODE, xds=xds)["static_resources"]["clusters"][0]
    address = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    assert (cluster["type"], address["address"]) == (kind, host)


def test_without_an_admin_address_there_is_no_admin_page():
    """Nothing is opened that nobody asked for."""
    assert "admin" not in build_bootstrap(node_id=NODE, xds="127.0.0.1:1")


@pytest.mark.parametrize("address", ["", "localhost", ":15010", "localhost:x"])
def test_what_is_no_address_is_refused(address):
    """With the text that was given, so the command line can show it."""
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        build_bootstrap(node_id=NODE, xds=address)


@pytest.mark.envoy
@pytest.mark.parametrize("delta", [True, False])
def test_a_real_envoy_accepts_it(delta, tmp_path):
    """`envoy --mode validate` finds nothing wrong."""
    binary = os.environ.get("TRIERARCH_ENVOY")
    if not binary:
        pytest.skip("TRIERARCH_ENVOY does not name an Envoy binary")
    path = tmp_path / "envoy.yaml"
    path.write_text(yaml.safe_dump(_full() | build_bootstrap(node_id=NODE, xds="127.0.0.1:15010", delta=delta)))
    result = subprocess.run([binary, "--mode", "validate", "-c", path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# --- over TLS --------------------------------------------------------------------------------------------------------
def test_with_a_token_grpc_reads_the_file():
    """The token's file is named, not its content: it is read for each stream, and the bootstrap holds no secret."""
    service = build_bootstrap(node_id=NODE, xds="127.0.0.1:15012", credentials=TokenFile(roots="/r", token="/t"))[
        "dynamic_resources"
    ]["ads_config"]["grpc_services"][0]["google_grpc"]
    assert service["target_uri"] == "127.0.0.1:15012"
    assert service["channel_credentials"] == {"ssl_credentials": {"root_certs": {"filename": "/r"}}}
    assert service["call_credentials"][0]["from_plugin"]["typed_config"]["secret_data"] == {"filename": "/t"}
    assert service["channel_args"]["args"]["grpc.ssl_target_name_override"]["string_value"] == CONTROL_PLANE_NAME


def test_with_a_folder_both_sides_are_verified():
    """Envoy shows the certificate of the folder, and calls nobody but who has the control plane's name."""
    cluster = build_bootstrap(
        node_id=NODE, xds="127.0.0.1:15012", credentials=IdentityFolder(path="/id"), xds_name="plane.example"
    )["static_resources"]["clusters"][0]
    context = cluster["transport_socket"]["typed_config"]
    common = context["common_tls_context"]
    names = common["combined_validation_context"]["default_validation_context"]["match_typed_subject_alt_names"]
    assert (context["sni"], names[0]["matcher"]["exact"]) == ("plane.example", "plane.example")
    source = common["tls_certificate_sds_secret_configs"][0]["sds_config"]["path_config_source"]
    assert source == {"path": "/id/default.yaml", "watched_directory": {"path": "/id"}}
