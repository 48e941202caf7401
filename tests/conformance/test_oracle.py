"""The comparison with a real istiod's answers: its parts, and that no case makes the generators crash."""

import pytest

from tests.conformance.cases import load_cases, shared_folder
from tests.conformance.comparing import (
    Difference,
    Verdict,
    compare_answers,
    differ,
    order_free,
    without_made_up_keys,
    without_tls,
)
from tests.conformance.oracle import main


def test_differences_are_told_by_path():
    """A missing key, another value, a list of another length; a path without its numbers is a pattern."""
    expected = {"a": [{"x": 1}, {"x": 2}], "b": 1, "c": [1]}
    found = {"a": [{"x": 1}, {"x": 3}], "c": [1, 2]}
    differences = list(differ(expected, found))
    assert differences == [Difference(".a[1].x", 2, 3), Difference(".b", 1, None), Difference(".c", [1], [1, 2])]
    assert differences[0].pattern == ".a[].x"


def test_each_resource_has_a_verdict():
    """Equal, different, missing on our side, extra on our side."""
    expected = [{"name": "same"}, {"name": "other", "x": 1}, {"name": "missing"}]
    found = [{"name": "same"}, {"name": "other", "x": 2}, {"name": "extra"}]
    rows = compare_answers("proxy", "clusters", expected, found)
    assert {row.name: row.verdict for row in rows} == {
        "same": Verdict.EQUAL,
        "other": Verdict.DIFFERS,
        "missing": Verdict.MISSING,
        "extra": Verdict.EXTRA,
    }


def test_endpoints_of_a_locality_are_a_set():
    """Their order says nothing, so both sides are put into one."""
    one, two = ({"endpoint": {"address": name}} for name in "ab")
    assert order_free({"lb_endpoints": [two, one]}) == order_free({"lb_endpoints": [one, two]})


def test_tls_may_be_left_out():
    """At any depth; what else there is stays."""
    value = {"name": "c", "transport_socket": {}, "x": [{"transport_socket_matches": [], "y": 1}]}
    assert without_tls(value) == {"name": "c", "x": [{"y": 1}]}


def test_keys_that_nobody_gave_are_as_good_as_any():
    """A key set in place of one that could not be fetched; one that is in the input has to be that one."""
    given, made_up = '{"keys":[{"kty":"RSA","n":"abc"}]}', '{"keys":[{"kty":"RSA","n":"xyz"}]}'
    value = [{"inline_string": given}, {"inline_string": made_up}, {"inline_string": "text"}]
    assert [each["inline_string"] for each in without_made_up_keys(value, given)] == [given, "made up", "text"]


@pytest.mark.slow
def test_no_case_crashes():
    """Whatever a mesh contains, each proxy gets an answer; how right it is `tests.conformance.oracle` tells."""
    if not any(True for _ in load_cases(shared_folder(), frozenset())):
        pytest.skip("no cases: TRIERARCH_CASES names no folder with oracle/cases")
    assert main(["--reasons", "0"]) == 0
