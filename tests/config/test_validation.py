"""What is refused and what is only remarked, kind by kind: each rule is broken once and told by its path."""

from __future__ import annotations

import pytest

from tests.config.reading import ORIGIN, complaints, document
from trierarch.config.admission import Refused, admit
from trierarch.config.findings import Rejected
from trierarch.config.virtual_service import CLAIMS

TO_A = "route: [{destination: {host: a}}]"


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("{}", ""),
        (f"{{{TO_A}, redirect: {{uri: /a}}}}", ""),
        ("{route: [{destination: {host: '*'}}]}", ".route[0].destination.host"),
        ("{route: [{destination: {host: a, port: {}}}]}", ".route[0].destination.port.number"),
        ("{route: [{destination: {host: a}}, {destination: {host: b}}]}", ".route"),
        ("{route: [{destination: {host: a}, weight: 1}, {destination: {host: b}, weight: -1}]}", ".route[1].weight"),
        (f"{{route: [{', '.join(['{destination: {host: a}, weight: 2147483647}'] * 3)}]}}", ".route"),
        (f"{{{TO_A}, timeout: 0.5ms}}", ".timeout"),
        (f"{{{TO_A}, timeout: 1.0005s}}", ".timeout"),
        (f"{{{TO_A}, match: [{{uri: {{regex: '('}}}}]}}", ".match[0].uri.regex"),
        (f"{{{TO_A}, match: [{{method: {{prefix: ''}}}}]}}", ".match[0].method.prefix"),
        (f"{{{TO_A}, match: [{{headers: {{'@request.auth.claims.x': {{exact: a}}}}}}]}}", None),
        (f"{{{TO_A}, retries: {{retryOn: 5xx}}}}", ".retries"),
        (f"{{{TO_A}, retries: {{attempts: 1, retryOn: often}}}}", ".retries.retryOn"),
        (f"{{{TO_A}, fault: {{abort: {{httpStatus: 100}}}}}}", ".fault.abort.httpStatus"),
        (
            f"{{{TO_A}, fault: {{delay: {{fixedDelay: 1s, percentage: {{value: 101}}}}}}}}",
            ".fault.delay.percentage.value",
        ),
        (f"{{{TO_A}, mirror: {{host: b}}, mirrorPercentage: {{value: 0.00001}}}}", ".mirrorPercentage.value"),
        (f"{{{TO_A}, headers: {{request: {{add: {{x: 5%}}}}}}}}", ".headers.request.add[x]"),
        (f'{{{TO_A}, headers: {{response: {{set: {{x: "5\\n"}}}}}}}}', ".headers.response.set[x]"),
        (f"{{{TO_A}, headers: {{request: {{add: {{x: a %REQUEST_ID% b}}}}}}}}", ".headers.request.add[x]"),
        (f"{{{TO_A}, headers: {{request: {{add: {{x: '%REQ%'}}}}}}}}", ".headers.request.add[x]"),
        (f"{{{TO_A}, headers: {{request: {{add: {{x: '%PROTOCOL:2%'}}}}}}}}", ".headers.request.add[x]"),
        (f"{{{TO_A}, corsPolicy: {{allowMethods: [GOT]}}}}", ".corsPolicy.allowMethods[0]"),
        (f"{{{TO_A}, rewrite: {{}}}}", ".rewrite"),
        (f'{{{TO_A}, rewrite: {{uri: "/a\\n"}}}}', ".rewrite.uri"),
        (f'{{{TO_A}, rewrite: {{authority: "a\\n"}}}}', ".rewrite.authority"),
        (
            f'{{{TO_A}, rewrite: {{uriRegexRewrite: {{match: a, rewrite: "b\\n"}}}}}}',
            ".rewrite.uriRegexRewrite.rewrite",
        ),
        (f"{{{TO_A}, match: [{{queryParams: {{'': {{exact: a}}}}}}]}}", ".match[0].queryParams"),
        ('{redirect: {uri: "/a\\n"}}', ".redirect.uri"),
        ("{redirect: {uri: /a, redirectCode: 200}}", ".redirect.redirectCode"),
        ("{directResponse: {status: 600}}", ".directResponse.status"),
        ("{delegate: {name: x}, redirect: {uri: /a}}", ""),
    ],
)
def test_http_routes(route: str, path: str | None):
    """Each rule about HTTP routes, broken once."""
    expected = "spec.http[0].match[0].headers[@request.auth.claims.x]" if path is None else f"spec.http[0]{path}"
    assert complaints("VirtualService", f"{{hosts: [a.b], http: [{route}]}}") == [expected]


def test_commands_in_headers():
    """Those that Envoy has, with parameters or without, are admitted, and percent signs that are doubled."""
    value = "%HOSTNAME% %START_TIME% %START_TIME(%Y-%m)% %REQ(x?y):5% 100%% %DOWNSTREAM_PEER_CERT_V_END(%b)%"
    assert (
        complaints(
            "VirtualService", f"{{hosts: [a.b], http: [{{{TO_A}, headers: {{request: {{set: {{x: '{value}'}}}}}}}}]}}"
        )
        == []
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (f"{{hosts: ['*'], http: [{{{TO_A}}}]}}", "spec.hosts[0]"),
        (f"{{hosts: ['*.b', a.b], http: [{{{TO_A}}}]}}", "spec.hosts[1]"),
        (f"{{hosts: [a/b], http: [{{{TO_A}}}]}}", "spec.hosts[0]"),
        ("{hosts: [a.b]}", "spec"),
        (f"{{hosts: [a.b], gateways: ['*/x'], http: [{{{TO_A}}}]}}", "spec.gateways[0]"),
        (
            f"{{hosts: [a.b], gateways: [x], http: [{{{TO_A}, match: [{{headers: {{'{CLAIMS}.b..c': {{}}}}}}]}}]}}",
            f"spec.http[0].match[0].headers[{CLAIMS}.b..c]",
        ),
        (f"{{hosts: [a.b], exportTo: ['*', x], http: [{{{TO_A}}}]}}", "spec.exportTo"),
        (f"{{hosts: [a.b], exportTo: ['~'], http: [{{{TO_A}}}]}}", "spec.exportTo[0]"),
        (f"{{hosts: [a.b], exportTo: [., shop], http: [{{{TO_A}}}]}}", "spec.exportTo[1]"),
        (f"{{gateways: [x], http: [{{{TO_A}}}]}}", "spec.gateways"),
        (f"{{tcp: [{{{TO_A}}}]}}", "spec.tcp"),
        (f"{{hosts: [a.b], tls: [{{{TO_A}}}]}}", "spec.tls[0].match"),
        (f"{{hosts: [a.b], tls: [{{match: [{{sniHosts: [c.d]}}], {TO_A}}}]}}", "spec.tls[0].match[0].sniHosts[0]"),
        (
            "{hosts: [a.b], tcp: [{match: [{port: 70000}], route: [{destination: {host: a}}]}]}",
            "spec.tcp[0].match[0].port",
        ),
        (f"{{hosts: [a.b], tcp: [{{match: [{{sourceSubnet: x}}], {TO_A}}}]}}", "spec.tcp[0].match[0].sourceSubnet"),
    ],
)
def test_virtual_services(spec: str, path: str):
    """Each rule about the rest of a VirtualService, broken once."""
    assert complaints("VirtualService", spec) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{}", "spec.host"),
        ("{host: a, subsets: [{name: v1}, {name: v1}]}", "spec.subsets[1]"),
        ("{host: a, subsets: [{name: V1}, {name: v_1}]}", "spec.subsets[1].name"),
        ("{host: a, exportTo: [x], workloadSelector: {matchLabels: {a: b}}}", "spec.exportTo"),
    ],
)
def test_destination_rules(spec: str, path: str):
    """Each rule about a DestinationRule, broken once."""
    assert complaints("DestinationRule", spec) == [path]


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ("{}", ""),
        ("{connectionPool: {}}", ".connectionPool"),
        ("{connectionPool: {http: {http2KeepAlive: {interval: 1s}}}}", ".connectionPool.http.http2KeepAlive.timeout"),
        ("{connectionPool: {tcp: {idleTimeout: 0s}, http: {idleTimeout: 0s}}}", ".connectionPool.http.idleTimeout"),
        ("{tls: {mode: MUTUAL, privateKey: k}}", ".tls.clientCertificate"),
        ("{loadBalancer: {consistentHash: {}}}", ".loadBalancer.consistentHash"),
        (
            '{loadBalancer: {consistentHash: {httpHeaderName: "a\\n"}}}',
            ".loadBalancer.consistentHash.httpHeaderName",
        ),
        (
            '{loadBalancer: {consistentHash: {httpCookie: {name: a, path: "/\\n"}}}}',
            ".loadBalancer.consistentHash.httpCookie.path",
        ),
        *(
            (
                f"{{loadBalancer: {{consistentHash: {{useSourceIp: true, {algorithm}}}}}}}",
                f".loadBalancer.consistentHash.{path}",
            )
            for algorithm, path in {
                "maglev: {tableSize: 65536}": "maglev.tableSize",
                "maglev: {tableSize: 5000077}": "maglev.tableSize",
                "ringHash: {minimumRingSize: 8388609}": "ringHash.minimumRingSize",
                "minimumRingSize: 8388609": "minimumRingSize",
            }.items()
        ),
        ("{loadBalancer: {warmup: {duration: 1s, aggression: 0.5}}}", ".loadBalancer.warmup.aggression"),
        (
            "{loadBalancer: {localityLbSetting: {distribute: [{from: x, to: {y: 99}}]}}}",
            ".loadBalancer.localityLbSetting.distribute[0].to",
        ),
        ("{portLevelSettings: [{tls: {}}]}", ".portLevelSettings[0].port.number"),
        ("{outlierDetection: {interval: 0s}}", ".outlierDetection.interval"),
        ("{outlierDetection: {consecutiveErrors: 1}}", ".outlierDetection.consecutiveErrors?"),
        ("{tunnel: {protocol: GET, targetHost: a, targetPort: 1}}", ".tunnel.protocol"),
        ("{retryBudget: {percent: 101}}", ".retryBudget.percent"),
        ("{retryBudget: {budgetInterval: -1s}}", ".retryBudget.budgetInterval"),
    ],
)
def test_traffic_policies(policy: str, path: str):
    """Each rule about a traffic policy, broken once, for the whole host and for a subset."""
    assert complaints("DestinationRule", f"{{host: a, trafficPolicy: {policy}}}") == [f"spec.trafficPolicy{path}"]
    subset = f"{{host: a, subsets: [{{name: s, trafficPolicy: {policy}}}]}}"
    assert complaints("DestinationRule", subset) == [f"spec.subsets[0].trafficPolicy{path}"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{resolution: DNS}", "spec.hosts"),
        ("{hosts: ['*'], resolution: NONE}", "spec.hosts[0]"),
        ("{hosts: ['*.a'], resolution: DNS}", "spec.hosts[0]"),
        ("{hosts: [a], addresses: [x]}", "spec.addresses[0]"),
        ("{hosts: [a], addresses: [10.0.0.0/8], resolution: DNS}", "spec.addresses[0]"),
        (
            "{hosts: [a], ports: [{number: 80, name: x, protocol: http}, {number: 80, name: y, protocol: http}]}",
            "spec.ports[1]",
        ),
        ("{hosts: [a], ports: [{number: 80, name: x, protocol: smtp}]}", "spec.ports[0].protocol"),
        ("{hosts: [a], endpoints: [{address: 1.1.1.1}]}", "spec.endpoints"),
        ("{hosts: [a], resolution: STATIC, endpoints: [{address: b.c}]}", "spec.endpoints[0].address"),
        (
            "{hosts: [a], resolution: STATIC, endpoints: [{address: 1.1.1.1, ports: {x: 1}}]}",
            "spec.endpoints[0].ports[x]",
        ),
        ("{hosts: [a], resolution: DNS_ROUND_ROBIN, endpoints: [{address: a}, {address: b}]}", "spec.endpoints"),
        ("{hosts: [a], resolution: DYNAMIC_DNS}", "spec.hosts[0]"),
        (
            "{hosts: ['*.a'], resolution: DYNAMIC_DNS, ports: [{number: 80, name: x, protocol: mongo}]}",
            "spec.ports[0].protocol",
        ),
        ("{hosts: [a], ports: [{number: 80, name: x, protocol: tcp}]}", "spec.ports[0]?"),
        ("{hosts: [a], resolution: STATIC}", "spec.endpoints?"),
    ],
)
def test_service_entries(spec: str, path: str):
    """Each rule about a ServiceEntry, broken once."""
    assert complaints("ServiceEntry", spec) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{}", "spec.address"),
        ("{address: 'a:80'}", "spec.address"),
        ("{address: 'unix://relative'}", "spec.address"),
        ("{address: 'unix:///s', ports: {a: 1}}", "spec.ports"),
        ("{address: 1.1.1.1, ports: {a: 0}}", "spec.ports[a]"),
        ("{network: n}", "spec.address?"),
    ],
)
def test_workload_entries(spec: str, path: str):
    """Each rule about a WorkloadEntry, broken once."""
    assert complaints("WorkloadEntry", spec) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{}", "spec"),
        ("{egress: [{hosts: []}]}", "spec.egress[0].hosts"),
        ("{egress: [{hosts: ['*']}]}", "spec.egress[0].hosts[0]"),
        ("{egress: [{hosts: ['a/*b']}]}", "spec.egress[0].hosts[0]"),
        ("{egress: [{hosts: ['a/b']}]}", "spec.egress[0].hosts[0]"),
        ("{egress: [{hosts: ['./*']}, {hosts: ['a/*']}]}", "spec.egress[0]"),
        ("{egress: [{hosts: ['./*'], bind: 1.1.1.1}]}", "spec.egress[0].bind?"),
        ("{egress: [{hosts: ['*/*', 'a/b.c']}]}", "spec.egress[0].hosts[1]?"),
        ("{ingress: [{defaultEndpoint: '127.0.0.1:1'}]}", "spec.ingress[0].port"),
        ("{ingress: [{port: {number: 80}, defaultEndpoint: '10.0.0.1:1'}]}", "spec.ingress[0].defaultEndpoint"),
        ("{ingress: [{port: {number: 80}, bind: 'unix:///x'}]}", "spec.ingress[0].bind"),
        ("{ingress: [{port: {number: 80}}, {port: {number: 80}}]}", "spec.ingress"),
        ("{outboundTrafficPolicy: {egressProxy: {host: a.b}}}", "spec.outboundTrafficPolicy.egressProxy"),
    ],
)
def test_sidecars(spec: str, path: str):
    """Each rule about a Sidecar, broken once."""
    assert complaints("Sidecar", spec) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{mtls: {mode: MAYBE}}", "spec.mtls.mode"),
        ("{selector: {matchLabels: {app: 'w*'}}}", "spec.selector.matchLabels[app]"),
        ("{selector: {}, mtls: {mode: STRICT}}", "spec.selector.matchLabels?"),
        ("{selector: {matchLabels: {app: web}}, portLevelMtls: {}}", "spec.portLevelMtls"),
        ("{portLevelMtls: {'80': {mode: STRICT}}}", "spec.portLevelMtls"),
        ("{selector: {matchLabels: {app: web}}, portLevelMtls: {http: {}}}", "spec.portLevelMtls[http]"),
        ("{selector: {matchLabels: {app: web}}, portLevelMtls: {'65536': {}}}", "spec.portLevelMtls[65536]"),
    ],
)
def test_peer_authentications(spec: str, path: str):
    """Each rule about a PeerAuthentication, broken once."""
    assert complaints("PeerAuthentication", spec) == [path]


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("{}", ".issuer"),
        ("{jwks: '{\"keys\":[]}'}", ".issuer"),
        ("{issuer: a, jwksUri: 'https://a.b', jwks: '{\"keys\":[]}'}", ""),
        ("{issuer: a, jwksUri: 'ftp://a.b'}", ".jwksUri"),
        ("{issuer: a, jwksUri: 'https://a.b:port'}", ".jwksUri"),
        ("{issuer: a, jwksUri: 'https://'}", ".jwksUri"),
        ("{issuer: a, jwksUri: 'https://a.b/x y'}", ".jwksUri"),
        (f"{{issuer: a, jwks_uri: https://a.b/{'x' * 2048}}}", ".jwksUri"),
        ("{issuer: a, jwks: keys}", ".jwks"),
        ('{issuer: a, jwks: \'{"keys":[{"kid":"k"}]}\'}', ".jwks"),
        ("{issuer: a, audiences: ['']}", ".audiences[0]"),
        ("{issuer: a, fromHeaders: [{prefix: b}]}", ".fromHeaders[0]"),
        ('{issuer: a, fromHeaders: [{name: "x\\n"}]}', ".fromHeaders[0].name"),
        ('{issuer: a, fromHeaders: [{name: x, prefix: "Bearer\\n"}]}', ".fromHeaders[0].prefix"),
        ('{issuer: a, outputPayloadToHeader: "x\\n"}', ".outputPayloadToHeader"),
        ("{issuer: a, fromParams: [b, '']}", ".fromParams[1]"),
        ("{issuer: a, fromCookies: ['']}", ".fromCookies[0]"),
        ("{issuer: a, spaceDelimitedClaims: ['']}", ".spaceDelimitedClaims[0]"),
        (f"{{issuer: a, spaceDelimitedClaims: [{', '.join('c' * 65)}]}}", ".spaceDelimitedClaims"),
        ("{issuer: a, outputClaimToHeaders: [{header: h}]}", ".outputClaimToHeaders[0].claim"),
        ("{issuer: a, outputClaimToHeaders: [{header: 'a b', claim: c}]}", ".outputClaimToHeaders[0].header"),
        ("{issuer: a, timeout: 0.0001s}", ".timeout"),
        ("{issuer: a, presence: MAYBE}", ".presence"),
    ],
)
def test_rules_about_tokens(rule: str, path: str):
    """Each rule about a rule of a RequestAuthentication, broken once."""
    assert complaints("RequestAuthentication", f"{{jwtRules: [{rule}]}}") == [f"spec.jwtRules[0]{path}"]


def test_request_authentications():
    """A key set may be empty, an issuer nameless; tokens are not tried, and there are not too many rules."""
    assert complaints("RequestAuthentication", "{jwtRules: [{issuer: a, jwks: '{\"keys\":[]}'}]}") == []
    assert complaints("RequestAuthentication", "{jwtRules: [{jwksUri: 'http://a.b/keys'}]}") == []
    dry = {"name": "it", "annotations": {"istio.io/dry-run": "true"}}
    assert complaints("RequestAuthentication", metadata=dry) == ["metadata.annotations[istio.io/dry-run]"]
    many = f"{{jwtRules: [{', '.join(['{issuer: a}'] * 4097)}]}}"
    assert complaints("RequestAuthentication", many) == ["spec.jwtRules"]


def test_all_violations_are_told():
    """Not only the first; remarks come along."""
    answer = admit(document("ServiceEntry", "{hosts: ['*'], exportTo: ['~', '*'], resolution: STATIC}"), ORIGIN, "k")
    assert isinstance(answer, Refused)
    assert [type(each) is Rejected for each in answer.findings] == [True, False, True, True]


RULES = "{{rules: [{{{}}}]}}"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("{action: DENY}", "spec.rules"),
        ("{action: CUSTOM, rules: [{}]}", "spec.provider.name"),
        ("{action: AUDIT, provider: {name: opa}, rules: [{}]}", "spec.provider"),
        ("{selector: {matchLabels: {a: b}}, targetRef: {kind: Service, name: a}}", "spec"),
        ("{targetRefs: [{kind: Pod, name: a}]}", "spec.targetRefs[0]"),
        ("{targetRefs: [{kind: Service}]}", "spec.targetRefs[0].name"),
        ("{targetRef: {kind: Service, name: a, namespace: b}}", "spec.targetRef.namespace"),
        (RULES.format("from: []"), "spec.rules[0].from"),
        (RULES.format("from: [{}]"), "spec.rules[0].from[0].source"),
        (RULES.format("to: [{operation: {}}]"), "spec.rules[0].to[0].operation"),
        (RULES.format("to: [{operation: {ports: [http]}}]"), "spec.rules[0].to[0].operation.ports[0]"),
        (RULES.format("to: [{operation: {notPaths: ['/a{*}']}}]"), "spec.rules[0].to[0].operation.notPaths[0]"),
        (RULES.format("to: [{operation: {paths: ['/{**}/{*}']}}]"), "spec.rules[0].to[0].operation.paths[0]"),
        (RULES.format("to: [{operation: {paths: ['/{*}//']}}]"), "spec.rules[0].to[0].operation.paths[0]"),
        (RULES.format("from: [{source: {notIpBlocks: [10.0.0]}}]"), "spec.rules[0].from[0].source.notIpBlocks[0]"),
        (
            RULES.format("from: [{source: {ipBlocks: [10.0.0.0/255.0.0.0]}}]"),
            "spec.rules[0].from[0].source.ipBlocks[0]",
        ),
        (RULES.format("from: [{source: {ipBlocks: ['fe80::1%eth0']}}]"), "spec.rules[0].from[0].source.ipBlocks[0]"),
        (RULES.format("from: [{source: {serviceAccounts: ['*']}}]"), "spec.rules[0].from[0].source.serviceAccounts[0]"),
        (RULES.format("from: [{source: {trustDomains: [a*b]}}]"), "spec.rules[0].from[0].source.trustDomains[0]"),
        (RULES.format("from: [{source: {serviceAccounts: [a], notNamespaces: [b]}}]"), "spec.rules[0].from[0].source"),
        (RULES.format("when: [{values: [a]}]"), "spec.rules[0].when[0].key"),
        (RULES.format("when: [{key: 'request.headers[]', values: [a]}]"), "spec.rules[0].when[0].key"),
        (RULES.format('when: [{key: "request.headers[a\\n]", values: [a]}]'), "spec.rules[0].when[0].key"),
        (RULES.format("when: [{key: 'request.auth.claims[a][]', values: [a]}]"), "spec.rules[0].when[0].key"),
        (RULES.format("when: [{key: 'request.auth.claims[][a]', values: [a]}]"), "spec.rules[0].when[0].key"),
        (RULES.format(f"to: [{{operation: {{ports: ['{'0' * 5000}']}}}}]"), "spec.rules[0].to[0].operation.ports[0]"),
        (RULES.format("when: [{key: source.namespace}]"), "spec.rules[0].when[0]"),
        (RULES.format("when: [{key: destination.port, notValues: ['99999']}]"), "spec.rules[0].when[0].notValues[0]"),
        (
            "{action: CUSTOM, provider: {name: p}, rules: [{from: [{source: {notRequestPrincipals: ['*']}}]}]}",
            "spec.rules[0].from[0].source.notRequestPrincipals",
        ),
        (
            "{action: CUSTOM, provider: {name: p}, rules: [{when: [{key: 'request.auth.claims[a]', values: [b]}]}]}",
            "spec.rules[0].when[0].key",
        ),
        (
            "{action: DENY, selector: {matchLabels: {a: b}}, rules: [{to: [{operation: {methods: [GET]}}]}]}",
            "spec.rules?",
        ),
    ],
)
def test_authorization_policies(spec: str, path: str):
    """Each rule about authorization policies, broken once."""
    assert complaints("AuthorizationPolicy", spec) == [path]
