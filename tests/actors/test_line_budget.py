"""How many lines in the log strangers may cause."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.line_budget import LINES, MINUTE, MOST_HOSTS, LineBudget


def test_a_host_has_some_lines_a_minute():
    """Whatever ports it calls from; others are not concerned. Its next line says how many were left out."""
    budget = LineBudget()
    assert [budget.left_out(f"10.0.0.1:{port}", 0.0) for port in range(LINES)] == [0] * LINES
    assert budget.left_out("10.0.0.1:99", 1.0) is None
    assert budget.left_out("10.0.0.1:99", MINUTE - 0.1) is None
    assert budget.left_out("10.0.0.2:99", 1.0) == 0
    assert budget.left_out("10.0.0.1:99", MINUTE) == 2
    assert budget.left_out("10.0.0.1:99", MINUTE) == 0


def test_of_very_many_hosts_the_rest_share_the_lines_of_one():
    """Until those who came first have been quiet for a minute."""
    budget = LineBudget()
    for host in range(MOST_HOSTS):
        assert budget.left_out(f"host-{host}:1", 0.0) == 0
    found = [budget.left_out(f"more-{host}:1", 1.0) for host in range(LINES + 5)]
    assert found == [0] * LINES + [None] * 5
    assert budget.left_out("host-0:1", 1.0) == 0
    assert budget.left_out("late:1", MINUTE) == 0


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0, 20)), max_size=100))
def test_lines_of_a_host_are_bounded_and_all_others_are_counted(calls):
    """Twice ten in any minute at most; each call has its line, or counts in the next one."""
    budget, now = LineBudget(), 0.0
    written = {host: [] for host in (1, 2, 3)}
    unsaid = dict.fromkeys(written, 0)
    for host, pause in calls:
        now += pause
        left_out = budget.left_out(f"host-{host}:1", now)
        if left_out is None:
            unsaid[host] += 1
        else:
            assert left_out == unsaid[host]
            unsaid[host] = 0
            written[host].append(now)
    for times in written.values():
        assert all(later >= earlier + MINUTE for earlier, later in zip(times, times[2 * LINES :], strict=False))
