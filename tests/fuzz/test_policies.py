"""Odd texts in every place of an authorization policy: each is refused, or is something that Envoy can be told.

What is admitted and cannot be built would keep all workloads of the policy without configuration; what is built and
Envoy refuses would keep them at the configuration before.
"""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from tests.config.reading import verdict
from tests.envoy.meshes import inbound_listeners, mesh_of
from tests.envoy.samples import inbound_key
from tests.envoy.test_listeners_in_envoy import accept
from tests.envoy.test_listeners_in_envoy import pytestmark as in_envoy
from tests.envoy.test_listeners_inbound import TARGETS
from tests.push.fixtures import snapshot
from trierarch.config.admission import Admitted
from trierarch.config.authorization_policy import Action, Operation, Source
from trierarch.config.validate_authorization_policy import CONDITIONS
from trierarch.envoy.rbac import build_rules
from trierarch.envoy.well_known_types import encode

TEXTS = (
    *("", " ", "*", "**", "*a*", "a*b", "a\n", "a\0b", "é", "\u2028", "%", "\\", "("),
    *("[", "]", "[]", "a][b", "][", "[*]"),
    *("/", "//", "a/b/c", "spiffe://"),
    *("/{*}", "{*}", "{**}", "/{**}/{*}", "//{*}", "/a/{*}//", "/{*", "/{x}", "/%zz/{*}"),
    *("0", "-1", "1.5", "65536", "0000000000065536", "0" * 5000, "9" * 5000, "1_0", "\u0663"),
    *("10.0.0.0/255.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "fe80::1%eth0", "::1/64", "10.1/8", "1.2.3.4 "),
    *("a" * 300, f"{'n' * 63}/{'a' * 253}", f"*{'a' * 300}"),
)
KEYED = [key.removesuffix("[]") for key in CONDITIONS if key.endswith("[]")]


def written(name: str) -> str:
    """The name of a field as users write it."""
    first, *words = name.split("_")
    return first + "".join(map(str.capitalize, words))


def rules(text: str) -> list[dict]:
    """Rules with the text in every place, one in each."""
    sources = [{"from": [{"source": {written(each.name): [text]}}]} for each in fields(Source)]
    operations = [{"to": [{"operation": {written(each.name): [text]}}]} for each in fields(Operation)]
    conditions = [{"key": each.replace("[]", "[x]"), "values": [text], "notValues": [text]} for each in CONDITIONS]
    conditions += [{"key": f"{each}[{text}]", "values": ["a"]} for each in KEYED]
    return [*sources, *operations, *({"when": [each]} for each in conditions)]


def admitted(text: str) -> list[dict]:
    """Those that are not refused."""
    return [each for each in rules(text) if isinstance(verdict("AuthorizationPolicy", policy([each])), Admitted)]


def policy(given: list[dict]) -> str:
    """A spec with these rules."""
    return json.dumps({"action": "DENY", "rules": given})


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:20])
def test_what_is_admitted_can_be_built(text):
    """For requests and for connections, and it matches something: no rule that denies gets lost."""
    found = verdict("AuthorizationPolicy", policy(admitted(text) or [{}]))
    assert isinstance(found, Admitted)
    for tcp in (False, True):
        built = build_rules(Action.DENY, [found.object], ("cluster.local",), tcp=tcp)
        assert len(built.policies) == len(found.object.spec.rules)
        assert encode(built)


@pytest.mark.envoy
@pytest.mark.slow
@in_envoy[1]
def test_what_is_admitted_is_accepted(tmp_path):
    """By a real Envoy, all of it at once."""
    found = filter(None, map(admitted, TEXTS))
    context = snapshot(*(f"AuthorizationPolicy shop/{number}: {policy(each)}" for number, each in enumerate(found)))
    key = inbound_key(targets=TARGETS, policies=context.authorization.of("shop", {}.items()))
    accept(tmp_path, [*inbound_listeners(mesh_of(), key, context).values()])
