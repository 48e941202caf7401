"""`trierarch validate`: every finding has a place, a path and a reason, and the exit code tells whether all is well."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from trierarch.cli.main import main

GOOD = """\
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow}
spec: {egress: [{hosts: ["./*"]}]}
"""
TYPO = GOOD.replace("spec: {", "spec: {egres: [], ")
BROKEN = GOOD + "---\nfoo: [bar\n---\n" + GOOD.replace("narrow", "wide").replace('"./*"', '"nowhere"')


def run(*arguments):
    """The command's exit code and output."""
    result = CliRunner().invoke(main, ["validate", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def folder(tmp_path):
    """Write files and return their folder."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def test_good_files_pass(folder):
    """Nothing to say but how many objects there are."""
    assert run(folder(a=GOOD), "--strict") == (0, "good objects: 1\n")


def test_an_unknown_field_is_a_warning_and_strictly_an_error(folder):
    """The nearest known name is offered; only --strict makes the command fail."""
    path = folder(a=TYPO)
    code, output = run(path)
    assert code == 0
    assert output.startswith(
        "a.yaml:1: warning: Sidecar/default/narrow spec.egres: unknown field (did you mean egress?)"
    )
    assert run(path, "--strict")[0] == 1


def test_one_malformed_document_does_not_hide_the_others(folder):
    """Each bad document is told with its line; the good one still counts."""
    code, output = run(folder(a=BROKEN))
    assert code == 1
    assert "a.yaml:7: error: " in output
    assert "Sidecar/default/wide spec.egress[0].hosts[0]" in output
    assert "good objects: 1" in output
    assert output.splitlines()[-1].endswith(" a.yaml:7, Sidecar/default/wide")


def test_findings_as_json(folder):
    """The same findings for programs."""
    code, output = run(folder(a=TYPO), "-o", "json")
    (finding,) = json.loads(output)
    assert (code, finding["level"], finding["path"], finding["line"]) == (0, "warning", "spec.egres", 1)


def test_a_kind_that_is_not_understood_is_named(folder):
    """It is no error: other kinds are served by other programs."""
    code, output = run(folder(a=GOOD + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"))
    assert code == 0
    assert "apps/v1 Deployment: this kind is not understood" in output


WEB = """\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
"""
ROUTE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web.example], http: [{route: [{destination: {host: web}}]}]}
"""
ASKING = """\
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asking, namespace: shop}
spec: {action: CUSTOM, provider: {name: opa}, rules: [{}]}
"""
TOKENS = """\
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: shop}
spec: {jwtRules: [{issuer: "https://issuer.example"}, {issuer: a, jwksUri: "https://issuer.example/keys"}]}
"""


def test_what_only_the_whole_mesh_shows_is_told_too(folder):
    """With object, path and reason; all paths are one mesh. It is a warning: the object is in force."""
    path = folder(web=WEB, route=ROUTE)
    code, output = run(path / "route.yaml")
    assert code == 0
    assert "route.yaml:1: warning: VirtualService/shop/web spec.http[0].route[0].destination.host: no service" in output
    assert run(path / "route.yaml", "--strict")[0] == 1
    assert run(path / "route.yaml", path / "web.yaml", "--strict") == (0, "good objects: 1\ngood objects: 1\n")
    (finding,) = json.loads(run(path / "route.yaml", "-o", "json")[1])
    assert (finding["object"], finding["level"]) == ("VirtualService/shop/web", "warning")


def test_the_mesh_may_have_another_domain_and_a_configuration(folder):
    """Given as they are to `serve`; the file is checked like any other."""
    path = folder(web=WEB, route=ROUTE.replace("host: web", "host: web.shop.svc.mesh.example"), asking=ASKING)
    mesh = path / "mesh.txt"
    mesh.write_text(
        "extensionProviders: [{name: opa, envoyExtAuthzGrpc: {service: web.shop.svc.mesh.example, port: 80}}]"
    )
    code, output = run(path, "--strict")
    assert code == 1
    assert "VirtualService/shop/web" in output
    assert "AuthorizationPolicy/shop/asking spec.provider.name" in output
    assert run(path, "--strict", "--mesh-config", mesh, "--domain", "mesh.example")[0] == 0
    mesh.write_text("accessLogEncoding: 7")
    assert run(path, "--mesh-config", mesh)[0] == 1


def test_an_object_in_two_paths_is_remarked_upon(folder):
    """As one in two files of a folder is: only the last of them would be in force."""
    path = folder(web=WEB, again=WEB)
    code, output = run(path / "web.yaml", path / "again.yaml")
    assert code == 0
    assert "again.yaml:1: warning: Service/shop/web: also defined in web.yaml:1, which does not count" in output
    assert run(path / "web.yaml", path / "again.yaml", "--strict")[0] == 1


def test_keys_that_nobody_has_fetched_are_no_finding(folder):
    """Files cannot mend that, and nothing is fetched to check them."""
    assert run(folder(tokens=TOKENS), "--strict") == (0, "good objects: 1\n")
