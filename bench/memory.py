"""What a proxy more costs in memory, when there is one with an equal view: the whole tree of actors, without sockets.

    python bench/memory.py [--services 1000] [--proxies 500]

The first proxies pay for the resources, which all share. Each further one adds its session, its actor and its mailbox
here, and a client's part, which in production is a socket and an HTTP/2 connection (bench/fanout.py shows those). Both
together may be 80 KB. The memory is what this process has resident.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
from pathlib import Path

import trio
from common.system import discarded_logs, running
from common.table import Table

FIRST = 50
PROXY_BUDGET = 35.0
"""KB; the other 45 are the stream's."""


def resident_kb() -> float:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1000


async def measure(services: int, proxies: int) -> tuple[float, float]:
    """Everything with a few proxies, and each one more."""
    async with running(services) as system:
        await system.connect(FIRST)
        gc.collect()
        before = resident_kb()
        await system.connect(proxies)
        gc.collect()
        return before, (resident_kb() - before) / proxies


def main() -> int:
    """Measure, print, compare with the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--proxies", type=int, default=500)
    arguments = parser.parse_args()
    with discarded_logs():
        everything, each = trio.run(measure, arguments.services, arguments.proxies)
    table = Table(f"{arguments.services} services", "KB")
    table.value(f"the process with {FIRST} proxies", everything)
    table.value("each proxy more", each, PROXY_BUDGET)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
