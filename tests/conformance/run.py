"""`make conformance`: runs the families of known answers and prints passed and total of each.

A family is a file `test_FAMILY.py` here. The cases are read from the folder that TRIERARCH_CASES names, laid out as the
tests say; a family whose cases are not there is reported as absent. Exit code 1 if a case fails, 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Tally:
    """A pytest plugin that counts outcomes by family."""

    def __init__(self) -> None:
        self.families: dict[str, Counter[str]] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case once: by its call, or by its set-up if that did not succeed."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            family = Path(report.fspath).stem.removeprefix("test_")
            self.families.setdefault(family, Counter())[report.outcome] += 1
            if report.failed:
                self.failed.append(report.nodeid)


def main() -> int:
    """Run all families."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the totals to this file too")
    options = parser.parse_args()
    tally = Tally()
    status = pytest.main(["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", str(HERE)], plugins=[tally])
    totals = {family: dict(counts) for family, counts in sorted(tally.families.items())}
    for family, counts in totals.items():
        known = counts.get("passed", 0) + counts.get("failed", 0)
        print(f"{family:<24} {counts.get('passed', 0)}/{known}" if known else f"{family:<24} no cases here")
    for case in tally.failed:
        print(f"failed: {case}")
    passed, failed, skipped = (sum(c.get(key, 0) for c in totals.values()) for key in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if options.json:
        options.json.write_text(json.dumps({"families": totals, "failed": tally.failed}, indent=2) + "\n")
    return int(status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED))


if __name__ == "__main__":
    sys.exit(main())
