"""What the agent costs: `python benchmarks/agent.py`. Fake NVML, real binding, real processes.

In the same run, over the same library and the same 8 GPUs x 7 instances: NVIDIA's
`nvidia-mig-parted assert`, and our `slicewright-agent verify` as a process for comparison.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pynvml

from node_agent.nvml import probe as nvml
from node_agent.nvml.observed import Observation
from node_agent.nvml.prober import Prober
from rehearsal.cluster.node import launcher, root
from rehearsal.cluster.node.launcher import Bind, LaunchSpec
from rehearsal.cluster.node.machine import Machine
from rehearsal.cluster.silicon import state
from rehearsal.host.toolchain import Toolchain, ensure

_PROBES, _PROCESSES = 200, 15
# Between probes, in which the next worker is forked; `watch` leaves at least a second.
_PAUSE_S = 0.03
_DRIVER = Path("/usr/local/nvidia")
_DESIRED = {
    "version": "v1",
    "pool": "bench",
    "partitioner": "none",
    "gpu_count": 8,
    "gpu_models": ["NVIDIA H100 80GB HBM3"],
    "gpus": [{"index": "all", "mig": True, "instances": {"1g.10gb": 7}}],
    "resources": {},
}


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    tools = ensure(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        machine = Machine(cloud="eks", gpu_model="H100-80", gpu_count=8, driver_version="580.65.06")
        node = root.build(directory, machine, tools)
        for index in range(8):
            state.recut(node.silicon, index, ["1g.10gb"] * 7)
        os.environ[state.VARIABLE] = str(node.silicon)
        print(
            "8 GPUs x 7 instances, simulated silicon; median (p95) of",
            _PROBES,
            "probes and",
            _PROCESSES,
            "processes",
        )
        watched, here = _probes(tools)
        _processes(directory, node, tools, watched)
        running = _first_verdict(directory, tools)
    print("goals, each for the median:")
    _goal("probe of 8 GPUs x 7 instances, in its own process", here * 1e3, 5, "ms")
    _goal("the same from request to parsed answer, as watch does", watched * 1e3, 5, "ms")
    _goal("start to first verdict", running.first_verdict_s, 0.5, "s")
    _goal("CPU at the default interval, all processes", running.cpu * 100, 1, "% of a core")
    _goal("memory, every page of the three processes once (PSS)", running.pss_mb, 40, "MB")
    _goal("memory, the largest of the three alone (RSS)", running.rss_mb, 40, "MB")


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a running `watch` costs."""

    first_verdict_s: float
    cpu: float
    """Fraction of a core, ended children included."""
    pss_mb: float
    """Sum over agent, fork server and waiting worker; shared pages count once."""
    rss_mb: float
    """Of the largest of the three."""


def _goal(what: str, found: float, most: float, unit: str) -> None:
    print(
        f"  {what:<58} {found:8.2f} {unit}, goal <= {most:g} {unit}: "
        f"{'met' if found <= most else 'NOT met'}"
    )


def _probes(tools: Toolchain) -> tuple[float, float]:
    """Seconds for a probe as `watch` does it, and for a probe inside its process."""

    def probe_here() -> None:
        assert nvml.probe().failure is None

    took = []
    # One fork server after the other: a second one would inherit the first one's pipe.
    for name, thorough in (
        ("one probe, as watch does it (own process per probe)", False),
        ("one thorough probe, likewise", True),
    ):
        prober = Prober.start(probe=_from(tools, thorough=thorough))
        try:
            took.append(_row(name, prober.probe, _PROBES, pause_s=_PAUSE_S))
        finally:
            prober.close()
    _load(tools)
    return took[0], _row("one probe, in process", probe_here, _PROBES)


def _processes(directory: Path, node: root.NodeRoot, tools: Toolchain, probe_s: float) -> None:
    (directory / "desired.json").write_text(json.dumps(_DESIRED))
    layouts = directory / "layouts"
    layouts.mkdir()
    wanted = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]
    (layouts / "config.yaml").write_text(
        json.dumps({"version": "v1", "mig-configs": {"wanted": wanted}})
    )
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(tools.fake_nvml.parent),
        state.VARIABLE: str(node.silicon),
    }

    def ours() -> None:
        argv = [
            sys.executable,
            "-m",
            "node_agent",
            "verify",
            "--silicon-only",
            "--desired",
            str(directory / "desired.json"),
        ]
        subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)

    def launched(*argv: str) -> Callable[[], None]:
        def run() -> None:
            spec = LaunchSpec(
                argv=argv,
                env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{_DRIVER}/lib64"},
                node_root=node.root,
                log=directory / "log",
                binds=(
                    Bind(source=layouts, target=Path("/etc/layouts")),
                    Bind(source=node.root / "home/kubernetes/bin/nvidia", target=_DRIVER),
                ),
            )
            code = launcher.start(
                spec
            ).wait()  # without a timeout, with which Python would poll every 50 ms
            assert code == 0, (directory / "log").read_text()

        return run

    own = _row("ours as a process: slicewright-agent verify", ours, _PROCESSES)
    if reason := launcher.why_not():
        print(f"nvidia-mig-parted assert: not measured: {reason}")
        return
    # The mount namespace is the rehearsal's cost, not theirs: measured with an empty program and
    # subtracted.
    empty = _row("(the namespace alone: /usr/bin/true)", launched("/usr/bin/true"), _PROCESSES)
    argv = (str(tools.mig_parted), "assert", "-f", "/etc/layouts/config.yaml", "-c", "wanted")
    theirs = (
        _row("theirs as a process: nvidia-mig-parted assert", launched(*argv), _PROCESSES) - empty
    )
    print(f"ours / theirs, command against command: {own / theirs:.2f}")
    print(f"a probe of the running agent / their command: {probe_s / theirs:.2f}")


def _first_verdict(directory: Path, tools: Toolchain) -> Running:
    log = directory / "watch.log"
    argv = [sys.executable, "-m", "node_agent", "watch", "--port", "0", "all:1g.10gb*7"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tools.fake_nvml.parent)}
    took = []
    for _ in range(_PROCESSES // 3):
        with log.open("wb") as stderr:
            started = time.perf_counter()
            process = subprocess.Popen(argv, env=environment, stderr=stderr)
        while "verdict" not in log.read_text():
            time.sleep(0.002)
        took.append(time.perf_counter() - started)
        if len(took) == _PROCESSES // 3:
            server = _children(process.pid)[0]
            all_three = [_memory(pid) for pid in (process.pid, server, *_children(server))]
            cpu = _cpu_s(process.pid, 20.0)
        process.send_signal(signal.SIGTERM)
        process.wait()
    print(f"{'start to first verdict':<55} {statistics.median(took) * 1e3:8.1f} ms")
    print(
        f"{'memory, agent + fork server + waiting worker':<55} "
        f"{sum(pss for _, pss in all_three) / 1024:8.1f} MiB PSS "
        f"({' + '.join(f'{rss / 1024:.1f}' for rss, _ in all_three)} MiB RSS, of which "
        "most is shared)"
    )
    print(f"{'CPU at the default interval':<55} {cpu * 100:8.2f} % of a core")
    return Running(
        first_verdict_s=statistics.median(took),
        cpu=cpu,
        pss_mb=sum(pss for _, pss in all_three) * 1024 / 1e6,
        rss_mb=max(rss for rss, _ in all_three) * 1024 / 1e6,
    )


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _memory(pid: int) -> tuple[int, int]:
    """Resident and proportional set, KiB."""
    rows = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    )
    return int(rows["Rss"].split()[0]), int(rows["Pss"].split()[0])


def _cpu_s(pid: int, over_s: float) -> float:
    """Fraction of a core, ended children included, over several probes."""

    def spent() -> float:
        total = 0
        for one in (pid, *_children(pid)):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
        return total / os.sysconf("SC_CLK_TCK")

    before, began = spent(), time.monotonic()
    time.sleep(over_s)
    return (spent() - before) / (time.monotonic() - began)


def _from(tools: Toolchain, *, thorough: bool) -> Callable[[], Observation]:
    def probe() -> Observation:
        _load(tools)
        return nvml.probe(thorough=thorough)

    return probe


def _load(tools: Toolchain) -> None:
    if pynvml.nvmlLib is None:
        pynvml.nvmlLib = ctypes.CDLL(str(tools.fake_nvml))


def _row(name: str, run: Callable[[], object], times: int, *, pause_s: float = 0.0) -> float:
    run()
    took = []
    for _ in range(times):
        time.sleep(pause_s)
        started = time.perf_counter()
        run()
        took.append(time.perf_counter() - started)
    took.sort()
    print(
        f"{name:<55} {statistics.median(took) * 1e3:8.2f} ms "
        f"({took[int(len(took) * 0.95)] * 1e3:.2f})"
    )
    return statistics.median(took)


if __name__ == "__main__":
    main()
