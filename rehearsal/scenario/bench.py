"""Part of `make bench`: measures rehearsals of gke-h100 on this machine, and prints Markdown.

Clouds and GPUs are simulated; times and memory are measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from slicewright.rehearsal.host import toolchain
from slicewright.rehearsal.host.processes import ENVIRONMENT_VARIABLE, kernel
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.progress import Progress

_STAGES = (
    "control plane ready",
    "first node joined",
    "first GPU resource advertised",
    "first report",
    "first node released",
)


@dataclass
class Usage:
    """Samples memory and processor time of all of the environment's processes.

    Memory is PSS, in which a shared page counts once.
    """

    environment: Environment
    peak_mib: float = 0.0
    _processor_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Of each process, ended ones too, as last seen."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Usage:
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def processor_s(self) -> float:
        """Used so far; without processes that came and went between two samples."""
        return sum(list(self._processor_s.values()))

    def _repeat(self) -> None:
        took_s = 0.0
        # The memory of a process is looked up page by page: of many, no more than a tenth of the
        # time.
        while not self._stop.wait(max(1.0, 9 * took_s)):
            began = time.monotonic()
            self._sample()
            took_s = time.monotonic() - began

    def _sample(self) -> None:
        # The engine and its plugins carry this variable too, so they count.
        mark = f"{ENVIRONMENT_VARIABLE}={self.environment.root}".encode()
        seen = [
            one
            for one in kernel.see_all()
            if one.pid != os.getpid() and mark in kernel.initial_environment(one.pid)
        ]
        for one in seen:
            key = one.pid, one.start_ticks
            self._processor_s[key] = max(self._processor_s.get(key, 0.0), _processor_s(one.pid))
        self.peak_mib = max(self.peak_mib, sum(_pss_kib(one.pid) for one in seen) / 1024)


@dataclass(frozen=True)
class Measured:
    """One warm run of gke-h100 with so many GPU nodes; `marks` in seconds since `pulumi up`
    began.
    """

    nodes: int
    ok: bool
    up_s: float
    again_s: float
    preview_s: float
    """Of the empty stack: everything is to be made."""
    preview_again_s: float
    """When everything is there."""
    destroy_s: float
    marks: dict[str, float]
    processor_s: float
    """Of all processes of the environment until `up` ended."""
    load: float
    """The load average of the machine then."""
    peak_mib: float


def main() -> int:
    """Measures and prints; 0 when every run succeeded. Progress goes to stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m slicewright.rehearsal.scenario.bench", description=__doc__
    )
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[1, 8, 64],
        help="GPU nodes of gke-h100's pool (default: 1 8 64)",
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="also build the whole toolchain in an empty cache (10 to 20 minutes)",
    )
    parsed = parser.parse_args()
    if min(parsed.nodes) < 1:
        parser.error(f"argument --nodes: {min(parsed.nodes)}: a pool has at least one node")
    tools = toolchain.ensure(_progress)
    toolchain.ensure(_progress)
    began = time.monotonic()
    toolchain.ensure(_progress)
    warm_s = time.monotonic() - began
    cold_s = _cold_set_up() if parsed.cold else None
    runs = [_measure(tools, nodes) for nodes in parsed.nodes]
    print(_text(warm_s, cold_s, runs))
    return 0 if all(run.ok for run in runs) else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _measure(tools: toolchain.Toolchain, nodes: int) -> Measured:
    base = Path(tempfile.mkdtemp(prefix="sw-bench-", dir="/tmp"))
    environment = environments.create(base / "gke-h100", tools)
    try:
        stack_file = environment.stack_file("gke-h100")
        text, changed = re.subn(
            r"nodes: \{ ?count: 1 ?\}", f"nodes: {{ count: {nodes} }}", stack_file.read_text()
        )
        if changed != 1:
            raise SystemExit(
                f"{stack_file}: no `nodes: {{ count: 1 }}` to change; the benchmark needs one"
            )
        stack_file.write_text(text)
        environments.start(environment)
        engine = Engine(environment, "gke-h100")
        engine.init()
        _progress(f"gke-h100 with {nodes} GPU node(s) …")
        # Not measured: it makes the plugins' caches of bytecode, which every later run finds.
        engine.preview()
        preview = engine.preview()
        with Usage(environment) as usage, Progress(environment, lambda line: None) as progress:
            up = engine.up()
            processor_s, load = usage.processor_s, os.getloadavg()[0]
            again = engine.up("--expect-no-changes")
        preview_again = engine.preview("--expect-no-changes")
        destroy = engine.destroy()
        outcomes = (preview, up, again, preview_again, destroy)
        ok = not any(each.code for each in outcomes) and not environment.inventory()
        if not ok:
            print(*(each.output for each in outcomes), file=sys.stderr)
        return Measured(
            nodes,
            ok,
            up.seconds,
            again.seconds,
            preview.seconds,
            preview_again.seconds,
            destroy.seconds,
            dict(progress.marks),
            processor_s,
            load,
            usage.peak_mib,
        )
    finally:
        environments.remove(environment)
        shutil.rmtree(base, ignore_errors=True)


def _cold_set_up() -> float:
    with tempfile.TemporaryDirectory(prefix="sw-cold-") as cache:
        before = {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "GOCACHE")}
        os.environ |= {"XDG_CACHE_HOME": cache, "GOCACHE": f"{cache}/go-build"}
        try:
            began = time.monotonic()
            toolchain.ensure(_progress)
            return time.monotonic() - began
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _text(warm_s: float, cold_s: float | None, runs: list[Measured]) -> str:
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "",
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    first = runs[0]
    lines = [
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}; "
        f"{os.cpu_count()} × {cpu or platform.machine()}, {memory_gib:.0f} GiB; load average "
        f"{os.getloadavg()[0]:.1f} at its end.",
        "Clouds and GPUs are simulated, with the cloud's own delays set to zero; times and "
        "memory are measured.",
        "Ratios are to the first row. Processor time and memory are of all processes of the "
        "environment; times that passed also tell what else the machine did, which the load "
        "average shows.",
        "",
        f"Toolchain: warm {warm_s:.2f} s"
        + (
            f", cold {cold_s:.0f} s (ratio {cold_s / warm_s:.0f})"
            if cold_s
            else "; cold not measured (`--cold`)"
        ),
        "",
        "gke-h100, warm, seconds after `pulumi up` was started:",
        "",
        "| GPU nodes | "
        + " | ".join(_STAGES)
        + " | from first report to first release | `up` ends | ratio | processor time of `up`, s "
        "| ratio | load | second `up` | preview that creates | preview without changes "
        "| destroy | peak memory |",
        "|" + "---|" * (len(_STAGES) + 12),
    ]
    for run in runs:
        stages = " | ".join(
            f"{run.marks[s]:.1f}" if s in run.marks else "not seen" for s in _STAGES
        )
        failed = "" if run.ok else " (failed)"
        lines.append(
            f"| {run.nodes} | {stages} | {_between(run.marks)} | {run.up_s:.1f}{failed} | "
            f"{run.up_s / first.up_s:.2f} | {run.processor_s:.1f} "
            f"| {run.processor_s / first.processor_s:.2f} | {run.load:.1f} | {run.again_s:.1f} "
            f"| {run.preview_s:.1f} | {run.preview_again_s:.1f} "
            f"| {run.destroy_s:.1f} | {run.peak_mib:.0f} MiB |"
        )
    return "\n".join(lines)


def _between(marks: Mapping[str, float]) -> str:
    """Seconds from the first report to the first release."""
    *_, reported, released = _STAGES
    if reported in marks and released in marks:
        return f"{marks[released] - marks[reported]:.1f}"
    return "not seen"


def _processor_s(pid: int) -> float:
    """User and system. Source: proc_pid_stat(5), fields 14 and 15."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass  # the process has ended
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
