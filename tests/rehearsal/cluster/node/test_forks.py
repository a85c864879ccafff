"""Programs of nodes that are forks of one process are as those that are started by themselves."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, dump
from slicewright.infra import delivery
from slicewright.infra.components import verified_start
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.cluster.node.forks import Forks, PythonCode
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection
from tests.rehearsal.cluster.node.stub_reports import StubReports, serving

_CODE = Path(verified_start.__file__).read_text(encoding="utf-8")
_AT = Path("/opt/slicewright")
_USER = 65532
Start = Callable[[LaunchSpec], Any]


@pytest.fixture(scope="module")
def forked() -> Forks:
    """Its servers end with the test process; a module's tests share them as a fleet does."""
    return Forks({"SLICEWRIGHT_TEST_MARK": "forks"})


@pytest.fixture(scope="module")
def starts(forked: Forks) -> dict[str, Start]:
    return {"own": launcher.start, "forked": forked.start}


@dataclass(frozen=True)
class Archive:
    """A program as pods have it, in a directory that is mounted into them."""

    directory: Path
    name: str
    digest: str

    def argv(self, *arguments: str) -> tuple[str, ...]:
        python = (launcher.INTERPRETER[0], "-S", "-I", "-S", "-c", _CODE)
        return (*python, f"{_AT}/{self.name}", self.digest, *arguments)

    @property
    def mounted(self) -> dict[str, Any]:
        return {
            "binds": (Bind(source=self.directory, target=_AT),),
            "host_paths": (Path(sys.base_prefix),),
        }


def _archive(directory: Path, files: dict[str, str]) -> Archive:
    """Of a program of its own, with the hash that its start asks for."""
    import hashlib

    digest, made = hashlib.sha256(), io.BytesIO()
    with zipfile.ZipFile(made, "w") as written:
        for path, text in sorted(files.items()):
            written.writestr(path, text)
            digest.update(f"{path}\0{len(text.encode())}\0".encode() + text.encode())
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.pyz").write_bytes(made.getvalue())
    return Archive(directory, "program.pyz", digest.hexdigest())


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The node agent as it is delivered."""
    app, directory = delivery.node_agent(), tmp_path_factory.mktemp("code")
    directory.chmod(0o755)  # the agent is an ordinary user
    (directory / app.name).write_bytes(app.content)
    return Archive(directory, app.name, app.sources_hash)


_SELF = """
import os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(0)
import helper
print(sys.argv, __name__, helper.__name__, os.getcwd(), sorted(os.environ.items()))
for line in open("/proc/self/status"):
    if line.startswith(("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Threads")):
        print(line.split())
print(len(os.listdir("/proc/self/fd")), os.getpgid(0) == os.getpid(), os.listdir("/"))
print(os.stat("/proc/self/maps").st_uid, sys.flags, sys.path[0][-4:], sys.stdout.encoding)
sys.exit(7)
"""


def test_forked_program_sees_the_same_process_attributes(
    make_node: Any, tmp_path: Path, starts: dict[str, Start]
) -> None:
    program = _archive(tmp_path / "code", {"__main__.py": _SELF, "helper.py": ""})
    node, found = make_node(count=1), {}
    for name, start in starts.items():
        process, log = node.start(
            *program.argv("one", "two"), uid=_USER, env={"A": "b"}, start=start, **program.mounted
        )
        assert process.wait(timeout=180) == 7
        found[name] = log.read_text()
    assert "'one', 'two'" in found["own"]
    assert "['CapEff:', '0000000000000000']" in found["own"]
    # A fork takes the locale that Python has set for itself from the process before it.
    locale = "('LC_CTYPE', 'C.UTF-8'), "
    assert found["forked"] == found["own"].replace(locale, "").replace(", " + locale[:-2], "")


def _changes() -> dict[str, Callable[[Path], object]]:
    """What can be with a node's GPUs."""

    def call(**fault: Any) -> Callable[[Path], object]:
        return lambda silicon: state.inject(silicon, Injection(**fault))

    return {
        "whole": lambda silicon: None,
        "halves": lambda silicon: state.repartition(silicon, 0, ["3g.40gb", "3g.40gb"]),
        "mixed": lambda silicon: state.repartition(silicon, 1, ["1g.10gb", "2g.20gb", "4g.40gb"]),
        "rebooted": state.reboot,
        "no name": call(call="nvmlDeviceGetName", gpu=0, code=999),
        "no start": call(call="nvmlInit", code=9),
        "healed": state.heal,
        "lost": lambda silicon: state.lose(silicon, 1),
        "rebooted again": state.reboot,
    }


def _shown(node: Any, agent: Archive, starts: dict[str, Start]) -> dict[str, tuple[Any, Path]]:
    return {
        name: node.start(*agent.argv("show", "--json"), uid=_USER, start=start, **agent.mounted)
        for name, start in starts.items()
    }


def test_everything_that_nvml_says_is_the_same_in_every_state_of_the_gpus(
    make_node: Any, agent: Archive, starts: dict[str, Start]
) -> None:
    node = make_node(count=2)
    for what, change in _changes().items():
        change(node.files.silicon)
        said = {
            name: (process.wait(timeout=180), log.read_text())
            for name, (process, log) in _shown(node, agent, starts).items()
        }
        assert said["forked"] == said["own"], what
    # States differ, so equal answers are none that are always given.
    assert '"failure"' in said["own"][1]


def test_a_driver_that_comes_later_is_found(
    make_node: Any, agent: Archive, starts: dict[str, Start]
) -> None:
    node = make_node(count=1)
    library = next((node.files.root / "usr").rglob("libnvidia-ml.so.1"))
    content = library.read_bytes()
    for present in (False, True):
        library.unlink(missing_ok=True)
        if present:
            library.write_bytes(content)
        said = {
            name: (process.wait(timeout=180), log.read_text())
            for name, (process, log) in _shown(node, agent, starts).items()
        }
        assert said["forked"] == said["own"]
        assert said["own"][0] == (0 if present else 2), said["own"]


_HALVES = Desired(
    pool="halves",
    partitioner="gke",
    gpu_count=2,
    gpu_models=("NVIDIA H100 80GB HBM3",),
    gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
    resources={"nvidia.com/gpu": 4},
)


@pytest.fixture
def reports(tmp_path: Path) -> Iterator[StubReports]:
    with serving(tmp_path, {"nvidia.com/gpu": "4"}) as api:
        yield api


def _watch(
    node: Any, agent: Archive, api: StubReports, name: str, start: Start, directory: Path
) -> Any:
    """The agent of Node `name`, with a token of its own, until it is ended."""
    account, desired, restarts = (
        directory / f"{name}-{one}" for one in ("token", "desired", "run")
    )
    for made in (account, desired, restarts):
        made.mkdir()
    restarts.chmod(0o777)
    (account / "token").write_text(f"token-of-{name}")
    (account / "ca.crt").write_bytes(api.ca.read_bytes())
    (desired / "desired.json").write_text(dump(_HALVES))
    mounted = agent.mounted
    process, _ = node.start(
        *agent.argv("watch", "--desired", "/etc/slicewright/desired.json", "--port", "0"),
        uid=_USER,
        env={
            "NODE_NAME": name,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(api.port),
        },
        binds=(
            *mounted["binds"],
            Bind(source=account, target=Path("/var/run/secrets/kubernetes.io/serviceaccount")),
            Bind(source=desired, target=Path("/etc/slicewright")),
            Bind(source=restarts, target=Path("/run/slicewright"), read_only=False),
        ),
        host_paths=mounted["host_paths"],
        start=start,
    )
    return process


def test_agents_report_the_same_each_with_its_own_name_and_token(
    make_node: Any,
    agent: Archive,
    reports: StubReports,
    starts: dict[str, Start],
    tmp_path: Path,
) -> None:
    node = make_node(count=2)
    silicon = node.files.silicon
    agents = {
        name: _watch(node, agent, reports, name, start, tmp_path)
        for name, start in (
            ("own", starts["own"]), ("forked-1", starts["forked"]), ("forked-2", starts["forked"])
        )
    }  # fmt: skip

    def all_report(what: str) -> dict[str, Any]:
        def says(report: dict[str, Any]) -> bool:
            return what in f"{report['verdict']}: {report['message']}"

        found = {name: reports.until(name, says) for name in agents}
        assert found["forked-1"] == found["own"] == found["forked-2"]
        return found["own"]

    assert all_report("Mismatch")["gpus"]
    for index in range(2):
        state.repartition(silicon, index, ["3g.40gb", "3g.40gb"])
    all_report("Match")
    # Partitions do not outlive a boot.
    reports.boot = "b2"
    state.reboot(silicon)
    all_report("Mismatch")
    state.inject(silicon, Injection(call="nvmlDeviceGetMigMode", gpu=1, code=999))
    all_report("DriverError")
    for name, token, report in reports.received:
        assert token == f"token-of-{name}"
        assert report["metadata"]["ownerReferences"][0]["uid"] == f"uid-{name}"
    for process in agents.values():
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=180) == 0


def test_an_archive_with_other_code_than_was_deployed_is_not_started(
    make_node: Any, tmp_path: Path, forked: Forks
) -> None:
    files = {"__main__.py": "import sys; sys.exit(len(sys.argv) - 1)"}
    good = _archive(tmp_path / "good", {**files, "__main__.py": "import sys; print('as deployed')"})
    _archive(tmp_path / "bad", files)
    node = make_node(count=1)
    process, log = node.start(*good.argv(), uid=_USER, start=forked.start, **good.mounted)
    assert process.wait(timeout=180) == 0
    assert "as deployed" in log.read_text()
    replaced = {**good.mounted, "binds": (Bind(source=tmp_path / "bad", target=_AT),)}
    process, log = node.start(*good.argv(), uid=_USER, start=forked.start, **replaced)
    assert process.wait(timeout=180) == verified_start.REFUSED
    assert "Its ConfigMap has been replaced" in log.read_text()


def test_a_program_that_cannot_be_loaded_ahead_is_started_all_the_same(
    make_node: Any, tmp_path: Path, forked: Forks
) -> None:
    program = _archive(
        tmp_path / "code", {"__main__.py": "import sys; sys.exit('--version' in sys.argv or 3)"}
    )
    node = make_node(count=1)
    process, _ = node.start(*program.argv(), uid=_USER, start=forked.start, **program.mounted)
    assert process.wait(timeout=180) == 3


def test_other_programs_are_executed(make_node: Any, forked: Forks) -> None:
    node = make_node(count=1)
    process, log = node.start("/bin/sh", "-c", "id -u; exit 9", uid=_USER, start=forked.start)
    assert process.wait(timeout=180) == 9
    assert log.read_text() == f"{_USER}\n"
    process, log = node.start("/usr/bin/not-there", start=forked.start)
    assert process.wait(timeout=180) == 127
    assert "cannot run /usr/bin/not-there in /" in log.read_text()


def test_a_signal_ends_one_and_no_other(make_node: Any, forked: Forks) -> None:
    node = make_node(count=1)
    first, _ = node.start("/bin/sleep", "1000", start=forked.start)
    second, _ = node.start("/bin/sleep", "1000", start=forked.start)
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(timeout=0.05)
    # As the kubelet stand-in ends what is left of a container.
    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait(timeout=180) == -signal.SIGKILL
    assert second.poll() is None
    assert launcher.stop(second, grace_s=60) == -signal.SIGTERM
    first.send_signal(signal.SIGTERM)  # nothing: its pid may be another's


def test_they_give_way_to_programs_that_are_started_by_themselves(
    make_node: Any, forked: Forks
) -> None:
    node = make_node(count=1)
    processes = [node.start("/bin/sleep", "1000", start=forked.start)[0] for _ in range(12)]
    own, _ = node.start("/bin/sleep", "1000")
    least = os.getpriority(os.PRIO_PROCESS, own.pid)
    for process in processes:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, least + 5)
    # In few sessions, each of which the kernel's scheduler counts as one program.
    sessions = {os.getsid(process.pid) for process in processes}
    assert len(sessions) == 4
    assert os.getsid(own.pid) not in sessions


def test_they_end_with_the_process_that_started_them(make_node: Any, tmp_path: Path) -> None:
    node = make_node(count=1)
    script = f"""
        import sys, threading
        from pathlib import Path
        from slicewright.rehearsal.cluster.node.forks import Forks
        from slicewright.rehearsal.cluster.node.launcher import LaunchSpec
        spec = LaunchSpec(argv=("/bin/sleep", "1000"), env={{}}, log=Path({str(tmp_path)!r}, "log"),
            node_root=Path({str(node.files.root)!r}))
        started = []
        thread = threading.Thread(target=lambda: started.append(Forks({{}}).start(spec)))
        thread.start(); thread.join()
        print(started[0].pid, flush=True)
        sys.stdin.read()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    descriptor = os.pidfd_open(pid)  # so it outlives the thread that started it
    parent.kill()
    parent.communicate()
    import select

    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    assert waiting.poll(60_000)
    os.close(descriptor)


def test_forks_are_killed_with_their_server_and_the_next_fork_starts_one(
    make_node: Any,
) -> None:
    node, own = make_node(count=1), Forks({})
    first, _ = node.start("/bin/sleep", "1000", start=own.start)
    os.kill(_parent(first.pid), signal.SIGKILL)
    assert first.wait(timeout=180) == -signal.SIGKILL
    second, _ = node.start("/bin/true", start=own.start)
    assert second.wait(timeout=180) == 0


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_leftovers_are_found_by_their_marks(make_node: Any, forked: Forks) -> None:
    node = make_node(count=1)
    process, _ = node.start("/bin/sleep", "1000", env={"A": "b"}, start=forked.start)
    assert b"SLICEWRIGHT_TEST_MARK=forks" in Path(f"/proc/{process.pid}/environ").read_bytes() or (
        # Executed, it has the variables of its container, among which the kubelet's marks are.
        b"A=b" in Path(f"/proc/{process.pid}/environ").read_bytes()
    )


def _spec(*argv: str, uid: int = _USER, **env: str) -> LaunchSpec:
    return LaunchSpec(argv=argv, env=env, node_root=Path("/n"), log=Path("/l"), uid=uid)


def test_which_programs_are_loaded_ahead() -> None:
    python = ("/usr/bin/python3", "-I", "-S", "-c", "code", "archive", "hash", "watch")
    assert PythonCode.of(_spec(*python)) == PythonCode(
        python=("/usr/bin/python3", "-I", "-S"), code="code", digest="hash"
    )
    others: dict[str, LaunchSpec] = {
        "a command": _spec("/usr/bin/sleep", "1"),
        "environment obeyed": _spec("/usr/bin/python3", "-c", "code", "archive", "hash"),
        "no archive": _spec("/usr/bin/python3", "-I", "-c", "code"),
        "root, which keeps its capabilities": _spec(*python, uid=0),
        "a locale": _spec(*python, LC_ALL="de_DE.UTF-8"),
    }
    assert {why: PythonCode.of(spec) for why, spec in others.items()} == dict.fromkeys(others)
