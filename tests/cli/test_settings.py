"""Settings: flags over environment over defaults, and a clear word about what cannot be read."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from trierarch.cli.serve import command
from trierarch.push.mesh import KeyFetching
from trierarch.setting_values import parse_address, parse_duration
from trierarch.settings import BadSetting, Settings, automatic_limit, parse_settings


def test_flags_win_over_the_environment_and_that_over_defaults():
    """Each source counts only where the ones above it say nothing."""
    environment = {"PILOT_DEBOUNCE_AFTER": "50ms", "CLUSTER_ID": "east"}
    settings = parse_settings({"cluster_id": "west"}, environment)
    assert (settings.cluster_id, settings.debounce_after, settings.debounce_max) == ("west", 0.05, 10.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("100ms", 0.1), ("10s", 10.0), ("1m30s", 90.0), ("1h", 3600.0), ("1.5s", 1.5), ("0", 0.0), ("2us", 2e-6)],
)
def test_durations_are_read_as_go_writes_them(text, seconds):
    """A Go duration becomes seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["ten", "5", "5x", "s", "-1s", "1.2.3s"])
def test_what_is_no_duration_is_refused(text):
    """A number without a unit, or anything else, is an error that shows what was written."""
    with pytest.raises(ValueError, match=r"\S"):
        parse_duration(text)


def test_an_address_without_host_is_loopback():
    """`:15010` listens on loopback; an empty address is off."""
    assert parse_address(":15010") == "127.0.0.1:15010"
    assert parse_address("0.0.0.0:15010") == "0.0.0.0:15010"
    assert parse_address("") == ""


def test_a_bad_value_names_its_flag_or_variable():
    """The error says where the value came from."""
    with pytest.raises(BadSetting, match="PILOT_DEBOUNCE_MAX"):
        parse_settings({}, {"PILOT_DEBOUNCE_MAX": "soon"})
    with pytest.raises(BadSetting, match="--grpc-addr"):
        parse_settings({"grpc_addr": "nowhere"}, {})


def test_the_features_are_the_settings_of_the_same_name():
    """Switches of generation are passed on unchanged."""
    features = Settings(dual_stack=True, auto_send_unhealthy=False).features
    assert (features.dual_stack, features.auto_send_unhealthy, features.http10) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("istiod", "istiod"),
        ("false", "istiod"),
        ("", "istiod"),
        ("Hybrid", "hybrid"),
        ("true", "hybrid"),
        ("envoy", "envoy"),
    ],
)
def test_who_fetches_keys(text, mode):
    """By name, or as the switch that it was in older versions."""
    assert parse_settings({}, {"PILOT_JWT_ENABLE_REMOTE_JWKS": text}).jwks_fetching is KeyFetching(mode)


def test_how_keys_are_fetched():
    """How often, and from whom not."""
    environment = {"PILOT_JWT_PUB_KEY_REFRESH_INTERVAL": "1h", "BLOCKED_CIDRS_IN_JWKS_URIS": "10.0.0.0/8, fd00::/8"}
    settings = parse_settings({}, environment)
    assert (settings.jwks_refresh, [str(each) for each in settings.jwks_blocked]) == (
        3600.0,
        ["10.0.0.0/8", "fd00::/8"],
    )
    with pytest.raises(BadSetting, match="BLOCKED_CIDRS_IN_JWKS_URIS"):
        parse_settings({}, {"BLOCKED_CIDRS_IN_JWKS_URIS": "everywhere"})


def test_limits_that_follow_the_cores():
    """Istiod's formula: 15 and 5 for each core, 100 at most."""
    assert [automatic_limit(cores) for cores in (1, 2, 4, 17, 64)] == [20, 25, 35, 100, 100]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE", "1024"),
        ("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", "100"),
        ("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", "0"),
        ("CITADEL_SELF_SIGNED_CA_CERT_TTL", "0"),
        ("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", "0"),
        ("DEFAULT_WORKLOAD_CERT_TTL", "0s"),
        ("JWT_RULE", "{}"),
        ("TRUSTED_GATEWAY_CIDR", "10.0.0.0/33"),
    ],
)
def test_what_would_make_an_authority_unsafe_is_refused(variable, text):
    """A weak key, a root that is always due, certificates that live no time, a rule that would believe anybody."""
    with pytest.raises(BadSetting, match=variable):
        parse_settings({}, {variable: text})


def test_half_an_authority_ends_the_program(tmp_path, monkeypatch):
    """With exit code 2 and the name of what is missing: another root would be worse than none."""
    (tmp_path / "mesh").mkdir()
    (tmp_path / "ca-cert.pem").write_text("...")
    monkeypatch.setenv("ROOT_CA_DIR", str(tmp_path))
    outcome = CliRunner().invoke(command, ["--config", str(tmp_path / "mesh")])
    assert outcome.exit_code == 2
    assert "ca-key.pem" in outcome.output
