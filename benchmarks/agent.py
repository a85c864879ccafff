"""What the agent costs: `python benchmarks/agent.py`. Fake NVML, real binding, real processes.

Compared within the run, in turns, over the same library and the same GPUs: a look of the running
agent and NVIDIA's `nvidia-mig-parted assert`. The agent looks five times quickly and once
thoroughly in a minute; that mean is what is compared. Compared is processor time, of all processes
that take part, because other load of the machine changes it less than time that passes; of rounds
in which the agent's worker was replaced it is not known, because the worker took its count with it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import operator
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewright.infra import delivery
from slicewright.infra.components import verified_start
from slicewright.node_agent.nvml import probe as nvml
from slicewright.node_agent.nvml.cache import Cache
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.node import launcher, root
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host.toolchain import Toolchain, ensure

_ROUNDS, _STARTS = 30, 9
_LOOKS = 6
"""Of a round, the last of them thorough."""
# Between looks: the worker is then ready again, and caches are as cold as after a second.
_PAUSE_S = 0.03
_SOAK_LOOKS, _SOAK_RESTARTS = 300, 6
_DRIVER = Path("/usr/local/nvidia")
_ISOLATED = ("-I", "-S")
"""As pods.command in slicewright.infra.components, which needs Pulumi's SDK to be imported."""
_SOAK = Path(__file__).with_name("agent_soak.py")


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    tools = ensure(lambda line: print(line, file=sys.stderr))
    os.environ["LD_LIBRARY_PATH"] = str(tools.fake_nvml.parent)
    print(f"simulated silicon; median (p95) of {_ROUNDS} rounds of {_LOOKS} looks")
    with tempfile.TemporaryDirectory() as name:
        ratios = {count: _compared(Path(name), tools, count) for count in (8, 16)}
        os.environ[state.VARIABLE] = str(_node(Path(name) / "running", tools, 8).silicon)
        running = _running(Path(name))
    soaked = _soaked()
    print("goals, each for the median:")
    for count, ratio in ratios.items():
        _goal(f"processor time, a look / mig-parted's assert, {count} GPUs x 7", ratio, 0.25, "")
    _goal("start to first verdict", running.first_verdict_s, 0.3, "s")
    _goal("start to first verdict, as pods start it", running.in_pod_s, 0.3, "s")
    _goal("CPU at the default interval, all processes", running.cpu * 100, 1, "% of a core")
    _goal("memory, every page of the three processes once (PSS)", running.pss_mb, 40, "MB")
    _goal("memory, the largest of the three alone (RSS)", running.rss_mb, 40, "MB")
    for what, (found, most, unit) in soaked.items():
        _goal(what, found, most, unit)


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a running `watch` costs."""

    first_verdict_s: float
    in_pod_s: float
    """The same, started as in a pod."""
    cpu: float
    """Fraction of a core, ended children included."""
    pss_mb: float
    """Sum over agent, fork server and worker; shared pages count once."""
    rss_mb: float
    """Of the largest of the three."""


def _goal(what: str, found: float, most: float, unit: str) -> None:
    print(
        f"  {what:<58} {found:8.2f} {unit}, goal <= {most:g} {unit}: "
        f"{'met' if found <= most else 'NOT met'}"
    )


def _node(directory: Path, tools: Toolchain, count: int) -> root.NodeFiles:
    machine = Machine(cloud="eks", gpu_model="H100-80", gpu_count=count, driver_version="580.65.06")
    node = root.build(directory, machine, tools)
    for index in range(count):
        state.repartition(node.silicon, index, ["1g.10gb"] * 7)
    return node


def _compared(directory: Path, tools: Toolchain, count: int) -> float:
    """Processor time of a look over that of the other program; not a number where it cannot run."""
    node = _node(directory / f"{count}", tools, count)
    os.environ[state.VARIABLE] = str(node.silicon)
    theirs, empty = _theirs(directory / f"{count}", node, tools)
    quick: list[float] = []
    thorough: list[float] = []
    whole: list[float] = []
    commands: dict[str, list[float]] = {"theirs": [], "empty": []}
    processor: dict[str, list[float]] = {"a look": [], "theirs": [], "empty": []}
    why_not = launcher.why_not()
    with _prober() as prober:
        for number in range(_ROUNDS):
            # As on a living node: what a thorough look finds is never what the last one found.
            for index in range(count):
                state.set_health(node.silicon, index, temperature_c=30 + number % 50)
            before = _processor_s(prober)
            looks = [_timed(lambda: prober.probe(thorough=False)) for _ in range(_LOOKS - 1)]
            last = _timed(lambda: prober.probe(thorough=True))
            time.sleep(_PAUSE_S)
            after = _processor_s(prober)
            if before.keys() == after.keys():  # else a worker was replaced
                used = sum(after.values()) - sum(before.values())
                processor["a look"].append(used / _LOOKS)
            quick += looks
            thorough.append(last)
            whole.append((sum(looks) + last) / _LOOKS)
            if not why_not:
                for name, run in (("theirs", theirs), ("empty", empty)):
                    used = _of_children_s()
                    commands[name].append(_timed(run))
                    processor[name].append(_of_children_s() - used)
    print(f"{count} GPUs x 7 instances:")
    _row("a quick look, from request to parsed answer", quick)
    _row("a thorough look, likewise", thorough)
    _row("mean of five quick looks and a thorough one", whole)
    cache = Cache()
    alone = [_timed(lambda: nvml.probe(cache=cache)) for _ in range(30)]
    _row("a quick look within the process that looks", alone)
    if why_not:
        print(f"nvidia-mig-parted assert: not measured: {why_not}")
        return float("nan")
    _row("nvidia-mig-parted assert, in a mount namespace", commands["theirs"])
    # The mount namespace is the rehearsal's cost, not theirs: subtracted.
    _row("(the namespace alone: /usr/bin/true)", commands["empty"])
    # Each round's own difference, because other load comes and goes.
    net, net_processor = (
        statistics.median(map(operator.sub, of["theirs"], of["empty"]))
        for of in (commands, processor)
    )
    print(f"{'nvidia-mig-parted assert without the namespace':<55} {net * 1e3:8.2f} ms")
    used = statistics.median(processor["a look"])
    print(f"{'a look / assert, time that passes':<55} {statistics.median(whole) / net:8.2f}")
    rounds = len(processor["a look"])
    print(
        f"processor time: {used * 1e3:.2f} ms a look ({rounds} of {_ROUNDS} rounds: the worker was "
        f"replaced in the others), {net_processor * 1e3:.2f} ms assert"
    )
    return used / net_processor


def _processor_s(prober: Prober) -> dict[int, float]:
    """Used so far by this process, the fork server and the worker."""
    pids = (os.getpid(), prober.pid, *_children(prober.pid))
    return {pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in pids}


def _of_children_s() -> float:
    """Processor time of the children that have ended, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _prober() -> Iterator[Prober]:
    prober = Prober.start()
    gc.freeze()  # as slicewright.node_agent.watch.run does
    try:
        failure = prober.probe().failure
        assert failure is None, failure
        yield prober
    finally:
        prober.close()


def _theirs(
    directory: Path, node: root.NodeFiles, tools: Toolchain
) -> tuple[Callable[[], None], Callable[[], None]]:
    """NVIDIA's program on the simulated node, and an empty one in the same namespace."""
    layouts = directory / "layouts"
    layouts.mkdir()
    wanted = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]
    (layouts / "config.yaml").write_text(
        json.dumps({"version": "v1", "mig-configs": {"wanted": wanted}})
    )

    def launched(*argv: str) -> Callable[[], None]:
        spec = LaunchSpec(
            argv=argv,
            env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{_DRIVER}/lib64"},
            node_root=node.root,
            log=directory / "log",
            binds=(
                Bind(source=layouts, target=Path("/etc/layouts")),
                Bind(source=node.root / "usr", target=_DRIVER),
            ),
        )

        def run() -> None:
            # Without a timeout, with which Python would poll every 50 ms.
            code = launcher.start(spec).wait()
            assert code == 0, (directory / "log").read_text()

        return run

    argv = (str(tools.mig_parted), "assert", "-f", "/etc/layouts/config.yaml", "-c", "wanted")
    return launched(*argv), launched("/usr/bin/true")


def _running(directory: Path) -> Running:
    log = directory / "watch.log"
    arguments = ["watch", "--port", "0", "all:1g.10gb*7"]
    argv = [sys.executable, "-m", "slicewright.node_agent", *arguments]
    pod = [*_checked_start(directory), *arguments]
    took, in_pod, python, api = [], [], [], []
    for start in range(_STARTS):
        python.append(_timed(lambda: _python("pass")))
        api.append(_timed(lambda: _from_source(directory, "urllib3")) - python[-1])
        process, seconds = _started(pod, log)
        in_pod.append(seconds)
        process.send_signal(signal.SIGTERM)
        process.wait()
        process, seconds = _started(argv, log)
        took.append(seconds)
        if start == _STARTS - 1:
            server = _children(process.pid)[0]
            all_three = [_memory(pid) for pid in (process.pid, server, *_children(server))]
            cpu = _cpu_s(process.pid, 20.0)
        process.send_signal(signal.SIGTERM)
        process.wait()
    _row("start to first verdict, 8 GPUs x 7, on a host", took)
    _row("the same as pods start it: checked, and compiled from source", in_pod)
    _row("(of which Python itself)", python)
    _row("in a cluster, in addition: loading urllib3, likewise", api)
    print(
        f"{'memory, agent + fork server + worker':<55} "
        f"{sum(pss for _, pss in all_three) / 1024:8.1f} MiB PSS "
        f"({' + '.join(f'{rss / 1024:.1f}' for rss, _ in all_three)} MiB RSS, of which "
        "most is shared)"
    )
    print(f"{'CPU at the default interval':<55} {cpu * 100:8.2f} % of a core")
    return Running(
        first_verdict_s=statistics.median(took),
        in_pod_s=statistics.median(in_pod),
        cpu=cpu,
        pss_mb=sum(pss for _, pss in all_three) * 1024 / 1e6,
        rss_mb=max(rss for rss, _ in all_three) * 1024 / 1e6,
    )


def _checked_start(directory: Path) -> list[str]:
    """The command of the agent's pods, up to the agent's own arguments."""
    app = delivery.node_agent()
    archive = directory / app.name
    archive.write_bytes(app.content)
    code = Path(verified_start.__file__).read_text()
    return [sys.executable, *_ISOLATED, "-c", code, str(archive), app.sources_hash]


def _started(argv: Sequence[str], log: Path) -> tuple[subprocess.Popen[bytes], float]:
    """The agent's process, and the seconds until its first verdict."""
    with log.open("wb") as stderr:
        started = time.perf_counter()
        process = subprocess.Popen(argv, stderr=stderr)
    while "verdict" not in log.read_text():
        time.sleep(0.002)
    return process, time.perf_counter() - started


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def _from_source(directory: Path, module: str) -> None:
    """Imports a module out of the agent's archive, compiled as in a pod."""
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import {module}"
    archive = directory / delivery.node_agent().name
    subprocess.run([sys.executable, *_ISOLATED, "-c", code, archive], check=True)


def _soaked() -> dict[str, tuple[float, float, str]]:
    """What was left, and the most that there may be; by what it is."""

    def run(what: str, number: int) -> str:
        with tempfile.TemporaryDirectory() as name:
            silicon = Path(name) / "silicon"
            state.create(silicon, "H100-80", 1, "580.65.06", "soak")
            argv = [sys.executable, str(_SOAK), what, str(silicon), str(number)]
            environment = {**os.environ, state.VARIABLE: str(silicon)}
            done = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True)
            return done.stdout

    held = json.loads(run("looks", _SOAK_LOOKS))
    print(f"held by agent, fork server and worker before {_SOAK_LOOKS} looks: {held['before']}")
    print(f"and after them: {held['after']}")
    left = json.loads(run("restarts", _SOAK_RESTARTS))
    print(f"left by {_SOAK_RESTARTS} restarts: {left}")

    def grown(what: str) -> float:
        return sum(p[what] for p in held["after"]) - sum(p[what] for p in held["before"])

    looks = f"growth over {_SOAK_LOOKS} looks:"
    return {
        f"{looks} processes": (len(held["after"]) - len(held["before"]), 0, ""),
        f"{looks} threads": (grown("threads"), 0, ""),
        f"{looks} descriptors": (grown("descriptors"), 0, ""),
        f"{looks} resident memory": (grown("resident KiB"), 2048, "KiB"),
        f"{_SOAK_RESTARTS} restarts: processes left": (left["processes"], 0, ""),
        f"{_SOAK_RESTARTS} restarts: temporary files left": (left["temporary files"], 0, ""),
        f"{_SOAK_RESTARTS} restarts: size of the emptyDir": (
            left["bytes in the emptyDir"],
            4096,
            "bytes",
        ),
    }


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


def _timed(run: Callable[[], object]) -> float:
    """Seconds."""
    time.sleep(_PAUSE_S)
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _row(name: str, took: list[float]) -> None:
    p95 = sorted(took)[int(len(took) * 0.95)]
    print(f"{name:<55} {statistics.median(took) * 1e3:8.2f} ms ({p95 * 1e3:.2f})")


if __name__ == "__main__":
    main()
