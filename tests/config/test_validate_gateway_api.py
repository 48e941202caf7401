"""What is refused of an HTTPRoute: each rule is broken once and told by its path."""

from __future__ import annotations

import pytest

from tests.config.reading import complaints


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("matches: [{path: {type: RegularExpression, value: '('}}]", ".matches[0].path.value"),
        ("matches: [{headers: [{name: 'a b', value: c}]}]", ".matches[0].headers[0].name"),
        (
            "matches: [{queryParams: [{name: a, type: RegularExpression, value: '['}]}]",
            ".matches[0].queryParams[0].value",
        ),
        ("filters: [{requestHeaderModifier: {set: [{name: a, value: 5%}]}}]", ".filters[0][a]"),
        ("filters: [{responseHeaderModifier: {remove: ['']}}]", ".filters[0]"),
        ('filters: [{urlRewrite: {hostname: "a\\n"}}]', ".filters[0].urlRewrite.hostname"),
        ("filters: [{requestRedirect: {port: 65536}}]", ".filters[0].requestRedirect.port"),
        (
            "filters: [{requestMirror: {fraction: {numerator: 0, denominator: 0}}}]",
            ".filters[0].requestMirror.fraction",
        ),
        ("filters: [{requestMirror: {percent: 101}}]", ".filters[0].requestMirror.percent"),
        ("filters: [{cors: {allowHeaders: ['a b']}}]", ".filters[0].cors.allowHeaders[0]"),
        ("backendRefs: [{name: a, weight: 1000001}]", ".backendRefs[0].weight"),
        (
            'backendRefs: [{name: a, filters: [{urlRewrite: {path: {replaceFullPath: "/\\r"}}}]}]',
            ".backendRefs[0].filters[0].urlRewrite.path.replaceFullPath",
        ),
        ("timeouts: {request: -1s}", ".timeouts.request"),
        ("retry: {backoff: 0s}", ".retry.backoff"),
    ],
)
def test_routes_of_the_gateway_api(rule: str, path: str):
    """Each rule about an HTTPRoute, broken once."""
    assert complaints("HTTPRoute", f"{{rules: [{{{rule}}}]}}") == [f"spec.rules[0]{path}"]
