"""What the agent leaves behind: `agent_soak.py looks STATE NUMBER` and `... restarts STATE NUMBER`.

Prints JSON; benchmarks/agent.py shows it, tests/node_agent/test_soak.py judges it. A process of its
own, because what else a test runner or a benchmark holds would count as the agent's. STATE is that
of a simulated node whose first GPU it may cut; LD_LIBRARY_PATH finds its library.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slicewright.node_agent.cluster.restart_memory import RestartMemory
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.silicon import state

Held = dict[str, int]


def looks(silicon: Path, number: int) -> dict[str, list[Held]]:
    """What agent, fork server and worker held before and after so many looks."""
    state.repartition(silicon, 0, ["1g.10gb"] * 7)
    prober = Prober.start()
    for _ in range(200):
        prober.probe()
    before = _all_held(prober)
    for look in range(number):
        observation = prober.probe(thorough=look % 6 == 0)
        assert observation.failure is None, observation.failure
        if look % 500 == 0:
            # The answer changes now and then, or it would be parsed only once.
            state.repartition(silicon, 0, ["3g.40gb"] * 2 if look % 1000 else ["1g.10gb"] * 7)
    after = _all_held(prober)
    prober.close()
    return {"before": before, "after": after}


def restarts(silicon: Path, number: int) -> dict[str, int]:
    """What so many agents left behind that were stopped or killed in turn, each after its verdict.

    All write their ends to one directory, as a pod's containers do to its emptyDir.
    """
    state.repartition(silicon, 0, ["1g.10gb"] * 7)
    with tempfile.TemporaryDirectory() as name:
        directory, log = Path(name), Path(name) / "log"
        kept, scratch = directory / "emptydir", directory / "tmp"
        kept.mkdir()
        scratch.mkdir()
        left_running = 0
        for restart in range(number):
            with log.open("wb") as stderr:
                agent = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "slicewright.node_agent",
                        "watch",
                        "--port",
                        "0",
                        "0:1g.10gb*7",
                    ],
                    env={**os.environ, "TMPDIR": str(scratch)},
                    stderr=stderr,
                )
            _until(lambda: "verdict" in log.read_text())
            children = _descendants(agent.pid)
            agent.send_signal(signal.SIGKILL if restart % 2 else signal.SIGTERM)
            agent.wait()
            _until(lambda pids=children: not any(map(_runs, pids)), fail=False)  # type: ignore[misc]
            left_running += sum(map(_runs, children))
            memory = RestartMemory(kept)
            now = time.monotonic()
            memory.save(memory.past_of("boot", now).add_end(f"signs {restart}", now))
        files = list(kept.iterdir())
        return {
            "processes": left_running,
            "files in the emptyDir": len(files),
            "bytes in the emptyDir": sum(file.stat().st_size for file in files),
            "temporary files": len(list(scratch.iterdir())),
        }


def _all_held(prober: Prober) -> list[Held]:
    """Of agent, fork server and worker, once a worker waits."""
    time.sleep(0.5)
    return [_held(pid) for pid in (os.getpid(), prober.pid, *_children(prober.pid))]


def _held(pid: int) -> Held:
    process = Path(f"/proc/{pid}")
    return {
        "resident KiB": int((process / "statm").read_text().split()[1])
        * os.sysconf("SC_PAGE_SIZE")
        // 1024,
        "threads": len(list((process / "task").iterdir())),
        "descriptors": len(list((process / "fd").iterdir())),
    }


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _descendants(pid: int) -> list[int]:
    children = _children(pid)
    return [*children, *(below for child in children for below in _descendants(child))]


def _runs(pid: int) -> bool:
    """Neither gone nor ended (a zombie waits for whoever adopted it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _until(holds: object, *, fail: bool = True) -> None:
    assert callable(holds)
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            assert not fail, "the agent gives no verdict"
            return
        time.sleep(0.005)


if __name__ == "__main__":
    found = {"looks": looks, "restarts": restarts}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(found))
