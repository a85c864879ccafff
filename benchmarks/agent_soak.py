"""Probes many times and prints what it and its children held before and after:
`many_probes.py STATE PROBES`.

A process of its own, because what another test left behind in the test runner's (a thread that ends
later, a connection) would count as ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from node_agent.nvml.prober import Prober
from rehearsal.cluster.silicon import state


def main(silicon: Path, probes: int) -> None:
    state.recut(silicon, 0, ["1g.10gb"] * 7)
    prober = Prober.start()
    for _ in range(200):
        prober.probe()
    before = _all_held(prober)
    for round_ in range(probes):
        observation = prober.probe(thorough=round_ % 10 == 0)
        assert observation.failure is None, observation.failure
        if round_ % 500 == 0:
            # The answer changes now and then, or it would be parsed only once.
            state.recut(silicon, 0, ["3g.40gb"] * 2 if round_ % 1000 else ["1g.10gb"] * 7)
    after = _all_held(prober)
    print(json.dumps({"before": before, "after": after}))
    prober.close()


def _all_held(prober: Prober) -> list[dict[str, int]]:
    """Of agent, fork server and worker, once the next worker waits."""
    time.sleep(0.5)
    children = Path(f"/proc/{prober.pid}/task/{prober.pid}/children").read_text().split()
    return [_held(pid) for pid in (os.getpid(), prober.pid, *map(int, children))]


def _held(pid: int) -> dict[str, int]:
    process = Path(f"/proc/{pid}")
    return {
        "resident KiB": int((process / "statm").read_text().split()[1])
        * os.sysconf("SC_PAGE_SIZE")
        // 1024,
        "threads": len(list((process / "task").iterdir())),
        "descriptors": len(list((process / "fd").iterdir())),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
