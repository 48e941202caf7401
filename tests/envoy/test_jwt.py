"""The filter that verifies tokens, and routes that ask for claims, as Envoy reads them."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import shared_folder
from tests.conformance.protojson import to_plain
from tests.envoy.meshes import virtual_service
from tests.push.fixtures import sidecar, snapshot, view_in
from trierarch.config.key_sets import NOBODYS_KEYS
from trierarch.config.virtual_service import parse_claim
from trierarch.envoy.http_filters import FilterSettings, build_http_filters
from trierarch.envoy.jwt import build_jwt
from trierarch.envoy.route_match import build_route_match
from trierarch.envoy.well_known_types import encode
from trierarch.push.mesh import ContextSettings, Features, KeyFetching

TABLES = shared_folder() / "conformance" / "go-tables"
APPLIER = TABLES / "security" / "pilot__pkg__security__authn__policy_applier.json"
ROUTING = TABLES / "agent" / "pkg__jwt__routing.json"
KEYS = '{"keys":[{"kty":"oct","k":"AQ"}]}'
_FILTER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
_MATCH = "type.googleapis.com/envoy.config.route.v3.RouteMatch"


def rows(path, func):
    """The whole rows of a table of istiod's tests."""
    if not path.is_file():
        return []
    (table,) = (each for each in json.loads(path.read_text())["tables"] if each["func"] == func)
    return [each["row"] for each in table["rows"] if each["complete"]]


def tokens(*rules, mode: KeyFetching = KeyFetching.OURS, more: str = ""):
    """What a workload understands under a policy with these rules."""
    policy = f"RequestAuthentication shop/jwt: {json.dumps({'jwtRules': rules})}"
    settings = ContextSettings(features=Features(jwks_fetching=mode))
    return view_in(sidecar(), snapshot(policy, more, settings=settings)).inbound.tokens


def configuration(*rules, reroutes: bool = False):
    """The filter's configuration for these rules."""
    return to_plain(_FILTER, encode(build_jwt(tokens(*rules), reroutes=reroutes)))["typed_config"]


def provider(**fields):
    """The provider for one rule."""
    (found,) = configuration({"issuer": "a", "jwks": KEYS, **fields})["providers"].values()
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"audiences": ["b", "a"]}, {"audiences": ["b", "a"]}),
        ({"forwardOriginalToken": True}, {"forward": True}),
        ({"outputPayloadToHeader": "x-p"}, {"forward_payload_header": "x-p"}),
        (
            {"outputClaimToHeaders": [{"header": "x-o", "claim": "org.unit"}]},
            {"claim_to_headers": [{"header_name": "x-o", "claim_name": "org.unit"}]},
        ),
        (
            {"fromHeaders": [{"name": "x-t", "prefix": "Bearer "}, {"name": "x-u"}]},
            {"from_headers": [{"name": "x-t", "value_prefix": "Bearer "}, {"name": "x-u"}]},
        ),
        ({"fromParams": ["t"], "fromCookies": ["c"]}, {"from_params": ["t"], "from_cookies": ["c"]}),
        ({"presence": "REQUIRED", "timeout": "3s"}, {}),
    ],
)
def test_fields_of_a_rule(fields, expected):
    """Each field stands where Envoy has it; what Envoy decides by itself is left to it."""
    base = {
        "issuer": "a",
        "local_jwks": {"inline_string": KEYS},
        "payload_in_metadata": "payload",
        "normalize_payload_in_metadata": {"space_delimited_claims": ["permission", "scope"]},
    }
    assert provider(**fields) == base | expected


def test_a_token_may_be_missing_and_not_wrong():
    """Of one issuer or of several: a valid one of any, or none at all."""
    (one,) = configuration({"issuer": "a", "jwks": KEYS})["rules"]
    missing = {"allow_missing": {}}
    assert one["requires"] == {"requires_any": {"requirements": [{"provider_name": "origins-0"}, missing]}}
    (two,) = configuration({"issuer": "b", "jwks": KEYS}, {"issuer": "a", "jwks": KEYS})["rules"]
    valid = [{"provider_name": f"origins-{index}"} for index in (0, 1)]
    each = [{"requires_any": {"requirements": [name, missing]}} for name in valid]
    assert two["requires"] == {"requires_any": {"requirements": [*valid, {"requires_all": {"requirements": each}}]}}


def test_issuers_stand_in_order():
    """Providers are numbered by the order of their issuers, so that order in a policy means nothing."""
    rules = ({"issuer": "b", "jwks": KEYS}, {"issuer": "a", "jwks": KEYS})
    assert configuration(*rules) == configuration(*reversed(rules))
    assert configuration(*rules)["providers"]["origins-0"]["issuer"] == "a"


def test_only_gateways_choose_their_route_again():
    """`clear_route_cache` is for those whose routes may ask for claims."""
    rule = {"issuer": "a", "jwks": KEYS}
    assert configuration(rule, reroutes=True)["providers"]["origins-0"]["clear_route_cache"] is True
    assert "clear_route_cache" not in provider()


def test_tokens_are_looked_at_before_policies_of_authorization():
    """In the chain of filters, between those that ask a provider and those that know claims."""
    names = [
        each.name
        for each in build_http_filters(
            FilterSettings(inbound=True, istio=True, tokens=tokens({"issuer": "a", "jwks": KEYS}))
        )
    ]
    assert names[:3] == ["istio.metadata_exchange", "envoy.filters.http.jwt_authn", "envoy.filters.http.grpc_stats"]


@pytest.mark.parametrize("row", rows(APPLIER, "TestBuildSpaceDelimitedClaims"), ids=lambda row: row["name"])
def test_table_of_space_delimited_claims(row):
    """Those of the rule and those that always are, sorted."""
    found = provider(spaceDelimitedClaims=row["input"] or [])
    assert found["normalize_payload_in_metadata"]["space_delimited_claims"] == row["expected"]


ISSUER = (
    "ServiceEntry mesh/issuer: {hosts: [jwt-token-issuer.mesh], ports: [{number: 7443, name: http, protocol: HTTP}]}"
)


def plain(value):
    """A row's message with the names and the absences that ours has."""
    if isinstance(value, dict):
        named = {_snake(name): plain(item) for name, item in value.items() if not name.startswith("$")}
        return {name: item for name, item in named.items() if item not in (False, None)}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _snake(name):
    if name.startswith("origins-"):
        return name
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@pytest.mark.parametrize("row", rows(APPLIER, "TestJwtFilter"), ids=lambda row: row["name"])
def test_table_of_filters(row):
    """The rows of istiod's own test that are whole: who fetches keys, keys that are inline, keys that nobody has.

    Inline keys that are none are passed on by istiod, and Envoy refuses them with the listener: there ours differs.
    """
    rules = [rule for each in row["in"] for rule in each["spec"].get("jwtRules", ())]
    mode = KeyFetching((row.get("jwksFetchMode") or "istiod").lower())
    found = tokens(*rules, mode=mode, more=ISSUER)
    if row["expected"] is None:
        assert found == ()
        return
    expected = plain(row["expected"]["typedConfig"])
    ours = to_plain(_FILTER, encode(build_jwt(found, reroutes=False)))["typed_config"]
    ours.pop("@type")
    for index, known in expected["providers"].items():
        if "bad Jwks" in row["name"] or "inline" in row["name"]:  # any key will do that nobody has
            assert ours["providers"][index]["local_jwks"] == {"inline_string": NOBODYS_KEYS}
            known["local_jwks"] = ours["providers"][index]["local_jwks"]
        if "remote_jwks" in known:  # the service has a longer name there
            uri = known["remote_jwks"]["http_uri"]
            uri["cluster"] = uri["cluster"].replace(".mesh.svc.cluster.local", ".mesh")
    assert ours == expected


# --- claims ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", rows(ROUTING, "TestToRoutingClaim"), ids=lambda row: row["name"])
def test_table_of_claims(row):
    """What stands for a claim, and where it is."""
    claims = row["want"].get("claims")
    assert parse_claim(row["name"]) == (tuple(claims) if claims else None)


def match(text):
    """Envoy's form of the only match of a route."""
    spec = virtual_service(
        f"{{hosts: [web], http: [{{match: [{text}], route: [{{destination: {{host: web}}}}]}}]}}"
    ).spec
    return to_plain(_MATCH, encode(build_route_match(spec.http[0].match[0])))


def test_a_route_may_ask_for_claims():
    """A claim is a string that matches or a list with one; without it inverts; headers stay headers."""
    found = match(
        "{headers: {'@request.auth.claims.org': {exact: a}, x-h: {exact: b}},"
        " withoutHeaders: {'@request.auth.claims[realm][role.name]': {prefix: c}}}"
    )
    text = {"string_match": {"exact": "a"}}
    org, role = found["dynamic_metadata"]
    assert org == {
        "filter": "envoy.filters.http.jwt_authn",
        "path": [{"key": "payload"}, {"key": "org"}],
        "value": {"or_match": {"value_matchers": [{"list_match": {"one_of": text}}, text]}},
    }
    assert role["invert"] is True
    assert role["path"] == [{"key": "payload"}, {"key": "realm"}, {"key": "role.name"}]
    assert [each["name"] for each in found["headers"]] == ["x-h"]


def test_a_claim_may_only_have_to_be_there():
    """A match without a value asks for its presence."""
    (found,) = match("{headers: {'@request.auth.claims.org': {}}}")["dynamic_metadata"]
    assert found["value"] == {"present_match": True}
