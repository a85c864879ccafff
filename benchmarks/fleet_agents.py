"""What the node agents of a large fleet cost: `PYTHONPATH=. python benchmarks/fleet_agents.py
[AGENTS]`, 64 by default.

The agent as it is delivered, on simulated nodes, each with its own token, against a stub of the API
server: started each by itself, and forked as in a rehearsal of a large fleet. Processor time is of
all their processes from the first start to the last first report, the fork server's included, and
memory is PSS, in which a shared page counts once. Other load of the machine makes what passes
longer, and these two hardly.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slicewright.apis.desired_state import Desired, DesiredGpu, dump
from slicewright.infra import delivery
from slicewright.infra.components import verified_start
from slicewright.rehearsal.cluster.node import launcher, root
from slicewright.rehearsal.cluster.node.forks import Forks
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.host.processes import kernel
from slicewright.rehearsal.host.toolchain import Toolchain, ensure
from tests.rehearsal.cluster.node.stub_reports import StubReports, serving

_USER = 65532
_DESIRED = Desired(
    pool="halves",
    partitioner="gke",
    gpu_count=2,
    gpu_models=("NVIDIA H100 80GB HBM3",),
    gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
    resources={"nvidia.com/gpu": 4},
)
Start = Callable[[LaunchSpec], Any]


def main() -> None:
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    tools = ensure(lambda line: print(line, file=sys.stderr))
    for how, start in (("started", launcher.start), ("forked", Forks({}).start)):
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as name, _running(Path(name), tools, agents, start) as s:
            processes = _descendants()
            used = sum(_processor_s(pid) for pid in processes) / agents
            memory = sum(_pss_mib(pid) for pid in processes) / agents
        print(
            f"{agents} agents, {how:<8} processor time of one {used * 1e3:6.0f} ms, memory of one "
            f"{memory:5.1f} MiB; all have reported after {s:.1f} s (load average {load:.1f})"
        )


@contextmanager
def _running(directory: Path, tools: Toolchain, agents: int, start: Start) -> Iterator[float]:
    """Seconds until all have reported; they end afterwards."""
    app, code = delivery.node_agent(), directory / "code"
    code.mkdir(mode=0o755)
    (code / app.name).write_bytes(app.content)
    desired = directory / "desired"
    desired.mkdir(mode=0o755)
    (desired / "desired.json").write_text(dump(_DESIRED))
    with serving(directory, {"nvidia.com/gpu": "4"}) as api:
        specs = [
            _agent(directory / f"{number}", tools, app, api, f"n{number}")
            for number in range(agents)
        ]
        began = time.monotonic()
        processes = [start(spec) for spec in specs]
        for number in range(agents):
            api.until(f"n{number}", lambda report: True)
        try:
            yield time.monotonic() - began
        finally:
            for process in processes:
                launcher.stop(process, grace_s=5)


def _agent(
    directory: Path, tools: Toolchain, app: delivery.Zipapp, api: StubReports, name: str
) -> LaunchSpec:
    """The agent of one node with that name."""
    machine = Machine(cloud="eks", gpu_model="H100-80", gpu_count=2, driver_version="580.65.06")
    node = root.build(directory / "node", machine, tools)
    account, restarts = directory / "account", directory / "restarts"
    for made in (account, restarts):
        made.mkdir()
        made.chmod(0o777)
    (account / "token").write_text(f"token-of-{name}")
    (account / "ca.crt").write_bytes(api.ca.read_bytes())
    mounted = {
        "/opt/slicewright": directory.parent / "code",
        "/etc/slicewright": directory.parent / "desired",
        "/var/run/secrets/kubernetes.io/serviceaccount": account,
        "/usr/local/nvidia": node.root / "usr",
    }
    check = Path(verified_start.__file__).read_text(encoding="utf-8")
    archive = f"/opt/slicewright/{app.name}"
    arguments = ("watch", "--desired", "/etc/slicewright/desired.json", "--port", "0")
    return LaunchSpec(
        argv=(*launcher.INTERPRETER, "-c", check, archive, app.sources_hash, *arguments),
        env={
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
            "NODE_NAME": name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(api.port),
        },
        node_root=node.root,
        log=directory / "log",
        uid=_USER,
        gid=_USER,
        host_paths=(Path(sys.base_prefix),),
        binds=(
            *(Bind(source=source, target=Path(target)) for target, source in mounted.items()),
            Bind(source=restarts, target=Path("/run/slicewright"), read_only=False),
        ),
    )


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for seen in kernel.see_all():
        children.setdefault(seen.parent, []).append(seen.pid)
    found, left = [], [os.getpid()]
    while left:
        of = children.get(left.pop(), [])
        found += of
        left += of
    return found


def _processor_s(pid: int) -> float:
    """User and system, of its ended children too. Source: proc_pid_stat(5), fields 14 to 17."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    main()
