"""What a program on a simulated node sees and may do, and how it ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.node import launcher, privileges, root
from slicewright.rehearsal.cluster.node.launcher import Bind

_PROJECT = Path(__file__).resolve().parents[4]


def _shell(node: Any, script: str, **options: Any) -> str:
    code, output = node.run("/bin/sh", "-c", script, **options)
    assert code == 0, output
    return str(output)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def _await_end(pid: int) -> None:
    """Returns when the killed process, which is not our child, is dead; a signal takes effect a
    moment after it was sent.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = _becomes_readable(descriptor)
    os.close(descriptor)
    assert ended, f"{pid} is still there"


def _becomes_readable(descriptor: int) -> bool:
    # Not select.select, which takes no descriptor above 1023: whole runs may have as many open.
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(60_000))


def test_the_kernel_and_the_driver_are_the_nodes(make_node: Any) -> None:
    node = make_node(count=2)
    assert "nvidia 56717312" in _shell(node, "cat /proc/modules")
    assert "gpu1/gi7/ci0/access" in _shell(node, "cat /proc/driver/nvidia-caps/mig-minors")
    assert _shell(node, "cat /sys/bus/pci/devices/*/device").split() == ["0x2330", "0x2330"]
    assert _shell(node, "ls /sys") == _shell(node, "echo bus; echo class")


def test_it_has_proc_self_and_devices_of_the_real_kernel(make_node: Any) -> None:
    node = make_node(count=1)
    assert (
        _shell(
            node,
            "grep -c ^processor /proc/cpuinfo; head -c 4 /dev/urandom | wc -c; readlink "
            "/proc/self/exe",
        ).split()[1]
        == "4"
    )
    assert "State:" in _shell(node, "cat /proc/self/status /proc/$$/status 2>&1")


_TOUCHED = "/ /usr /etc /usr/local/bin /opt /root /home /var /var/lib /sys /proc /tmp"


def _written(node: Any, **options: Any) -> set[str]:
    """The directories in which a program could make a file."""
    script = f"for d in {_TOUCHED}; do touch $d/by-a-test 2>/dev/null && echo $d; done; true"
    return set(_shell(node, script, **options).split())


def test_nothing_of_the_host_is_writable_and_tmp_is_private(make_node: Any) -> None:
    node = make_node(count=1)
    written = _written(node)
    assert not written & {"/usr", "/usr/local/bin", "/sys", "/proc"}
    assert not any(Path(directory, "by-a-test").exists() for directory in _TOUCHED.split())
    assert "/tmp" in written
    assert _shell(node, "ls /tmp") == ""


def test_a_program_has_a_writable_layer_of_its_own(make_node: Any) -> None:
    node = make_node(count=1)
    assert _written(node) >= {"/", "/etc", "/opt", "/root", "/home", "/var", "/var/lib", "/tmp"}
    assert _shell(node, "find / -xdev -name by-a-test") == ""


def test_with_a_read_only_root_it_writes_nowhere_but_to_its_volumes(
    make_node: Any, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    bind = Bind(source=tmp_path / "data", target=Path("/var/data"), read_only=False)
    node = make_node(count=1)
    assert _written(node, read_only_root=True, binds=(bind,)) == set()
    _shell(node, "touch /var/data/kept", read_only_root=True, binds=(bind,))
    assert (tmp_path / "data/kept").exists()


def test_another_user_writes_to_tmp_only(make_node: Any) -> None:
    assert _written(make_node(count=1), uid=65532) == {"/tmp"}


def test_a_working_directory_that_the_image_lacks_is_made(make_node: Any) -> None:
    node = make_node(count=1)
    assert _shell(node, "pwd; touch file", cwd=Path("/a/b")) == "/a/b\n"
    assert _shell(node, "pwd", cwd=Path("/a/b"), read_only_root=True) == "/a/b\n"


def test_the_nodes_writable_directories_are_shared_with_the_outside(make_node: Any) -> None:
    node = make_node(count=1)
    _shell(node, "touch /var/lib/kubelet/device-plugins/a /run/nvidia/validations/b")
    assert (node.files.device_plugins / "a").exists()
    assert (node.files.root / "run/nvidia/validations/b").exists()


def test_other_paths_of_the_host_do_not_exist(make_node: Any) -> None:
    node = make_node(count=1)
    assert _shell(node, f"test -e {_PROJECT}/pyproject.toml || echo hidden") == "hidden\n"
    assert _shell(node, "ls -A /root 2>/dev/null | wc -l").strip() == "0"


@pytest.mark.parametrize(
    "target",
    [
        "/etc/slicewright",
        "/opt/slicewright",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/usr/local/nvidia",
        "/usr/share/not/there/before",
        "/host",
        "/tmp/below",
    ],
)
def test_a_bind_can_be_at_any_path(make_node: Any, tmp_path: Path, target: str) -> None:
    source = tmp_path / "volume"
    source.mkdir()
    (source / "key").write_text("value")
    output = _shell(
        make_node(count=1),
        f"cat {target}/key; touch {target}/new 2>&1 || echo read-only; ls /usr/share | wc "
        f"-l; ls {Path(target).parent} | wc -l",
        binds=(Bind(source=source, target=Path(target)),),
        sees_gpus=False,
    )
    assert output.startswith("value")
    assert "read-only" in output
    # What was beside it is still there.
    assert int(output.split()[-2]) >= len(list(Path("/usr/share").iterdir()))


def test_a_single_file_can_be_bound_and_a_bind_can_be_writable(
    make_node: Any, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "data").mkdir()
    binds = (
        Bind(source=tmp_path / "token", target=Path("/etc/token")),
        Bind(source=tmp_path / "data", target=Path("/data"), read_only=False),
    )
    assert (
        _shell(make_node(count=1), "cat /etc/token; echo kept > /data/file", binds=binds)
        == "secret"
    )
    assert (tmp_path / "data/file").read_text() == "kept\n"


def test_a_missing_bind_is_named_and_ends_with_126(make_node: Any, tmp_path: Path) -> None:
    code, output = make_node(count=1).run(
        "/bin/true", binds=(Bind(source=tmp_path / "nowhere", target=Path("/x")),)
    )
    assert code == 126
    assert f"cannot bind {tmp_path}/nowhere to /x: No such file or directory" in output
    assert "Traceback" not in output


def test_a_missing_program_is_named_and_ends_with_127(make_node: Any) -> None:
    code, output = make_node(count=1).run("/usr/bin/not-there")
    assert code == 127
    assert "cannot run /usr/bin/not-there in /: No such file or directory" in output


def test_another_user_has_that_uid_and_no_capabilities(make_node: Any) -> None:
    output = _shell(
        make_node(count=1),
        "id -u; id -g; id -G; grep -E 'Cap(Eff|Bnd|Prm)|NoNewPrivs' /proc/self/status",
        uid=65532,
    )
    assert output.split()[:3] == ["65532"] * 3
    assert output.count("0000000000000000") >= (
        3 if os.geteuid() == 0 else 2
    )  # without root the bounding set stays
    assert output.splitlines()[-1].split() == ["NoNewPrivs:", "1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root to make")
def test_another_user_cannot_read_roots_files(make_node: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o600)
    bind = Bind(source=tmp_path / "token", target=Path("/etc/token"))
    assert make_node(count=1).run("/bin/cat", "/etc/token", uid=65532, binds=(bind,))[0] == 1


def test_the_environment_is_exactly_what_was_given(make_node: Any) -> None:
    node = make_node(count=1)
    process, log = node.start("/usr/bin/env", env={"NODE_NAME": "n1"}, sees_gpus=False)
    assert process.wait(timeout=180) == 0
    assert {line.split("=")[0] for line in log.read_text().split()} == {
        "PATH",
        "HOME",
        "NODE_NAME",
        "SLICEWRIGHT_FAKE_NVML_STATE",
    }


def test_stop_ends_the_process_group_and_kills_what_ignores_sigterm(make_node: Any) -> None:
    node = make_node(count=1)
    process, log = node.start("/bin/sh", "-c", "trap '' TERM; sleep 100 & echo $!; wait; wait")
    while not log.read_text().endswith("\n"):
        assert process.poll() is None
        time.sleep(0.01)
    child = int(log.read_text())
    assert launcher.stop(process, grace_s=0.2) == -signal.SIGKILL
    _await_end(child)


def test_stop_after_the_end_kills_what_the_program_left_behind(make_node: Any) -> None:
    process, log = make_node(count=1).start("/bin/sh", "-c", "sleep 100 & echo $!")
    assert process.wait(timeout=180) == 0
    child = int(log.read_text())
    assert _alive(child)
    assert launcher.stop(process, grace_s=1) == 0
    _await_end(child)


def test_a_program_that_ends_in_time_is_not_killed(make_node: Any) -> None:
    process, _ = make_node(count=1).start("/bin/sleep", "100")
    assert launcher.stop(process, grace_s=60) == -signal.SIGTERM


def test_programs_outlive_the_thread_that_started_them_but_not_the_process(
    tmp_path: Path, make_node: Any
) -> None:
    node = make_node(count=1)
    script = f"""
        import sys, threading
        from pathlib import Path
        from slicewright.rehearsal.cluster.node.launcher import LaunchSpec, start
        root, log = Path({str(node.files.root)!r}), Path({str(tmp_path / "log")!r})
        spec = LaunchSpec(argv=("/bin/sleep", "100"), env={{}}, node_root=root, log=log)
        started = []
        thread = threading.Thread(target=lambda: started.append(start(spec)))
        thread.start(); thread.join()
        try:
            started[0].wait(timeout=0.5)
        except Exception:
            print(started[0].pid, flush=True)
        sys.stdin.read()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=_PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert _alive(pid)
    descriptor = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    assert _becomes_readable(descriptor)
    os.close(descriptor)


def test_the_path_to_the_node_may_be_long(tmp_path: Path, toolchain: Any, namespaces: None) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    files = root.build_without_gpus(deep)
    spec = launcher.LaunchSpec(
        argv=("/bin/cat", "/proc/modules"), env={}, node_root=files.root, log=tmp_path / "log"
    )
    assert launcher.start(spec).wait(timeout=180) == 0
    assert (tmp_path / "log").read_text().startswith("overlay")


def test_many_starts_at_once_leave_no_mounts_behind(make_node: Any) -> None:
    node = make_node(count=1)
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(node.start("/bin/true")[0].wait()))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 12
    assert str(node.directory) not in Path("/proc/self/mounts").read_text()
    assert list((node.directory / "mnt").iterdir()) == []


_SYSTEM_PYTHON = Path("/usr/bin/python3")


WITHOUT_SYS_ADMIN = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_ADMIN
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
"""As root in an ordinary container."""


_SELF = """
import os
os.listdir("/proc/self/fd")
print(os.getuid(), *(line for line in open("/proc/self/status") if line.startswith("CapEff")))
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not _SYSTEM_PYTHON.exists(),
    reason="needs root to become somebody else, and a Python for all",
)
@pytest.mark.parametrize("root", [False, True], ids=["nobody", "root without CAP_SYS_ADMIN"])
def test_it_works_in_a_user_namespace(toolchain: Any, namespaces: None, root: bool) -> None:
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        base.chmod(0o777)
        shutil.copy(toolchain.mig_parted, base / "nvidia-mig-parted")
        shutil.copy(toolchain.fake_nvml, base / "libnvidia-ml.so.1")
        shutil.copy(toolchain.fake_cuda, base / "libcuda.so.1")
        shutil.copytree(
            _PROJECT / "rehearsal/cluster/node", base / "code/slicewright/rehearsal/cluster/node"
        )
        shutil.copytree(
            _PROJECT / "rehearsal/cluster/silicon",
            base / "code/slicewright/rehearsal/cluster/silicon",
        )
        (base / "program").mkdir()
        with zipfile.ZipFile(base / "program/program", "w") as archive:
            archive.writestr("empty", "")
        script = f"""
            import sys; sys.path.insert(0, {str(base / "code")!r})
            from pathlib import Path
            from types import SimpleNamespace
            from slicewright.rehearsal.cluster.node import launcher, root
            from slicewright.rehearsal.cluster.node.machine import Machine
            base = Path({str(base)!r})
            assert launcher.why_not() is None, launcher.why_not()
            assert not launcher.own().sys_admin
            machine = Machine(cloud="eks", gpu_model="H100-80", gpu_count=1,
                driver_version="550.90.07")
            node = root.build(base / "node", machine,
                SimpleNamespace(fake_nvml=base / "libnvidia-ml.so.1",
                    fake_cuda=base / "libcuda.so.1"))
            bind = launcher.Bind(source=node.root / "usr/lib64", target=Path("/usr/local/nvidia"))
            for argv, uid in ((("/usr/bin/id", "-u"), 65532), ((str(base / "nvidia-mig-parted"),
                "export"), 0)):
                spec = launcher.LaunchSpec(argv=argv,
                    env={{"LD_LIBRARY_PATH": "/usr/local/nvidia"}}, node_root=node.root,
                    log=base / "log", uid=uid, gid=uid, binds=(bind,))
                assert launcher.start(spec).wait(timeout=180) == 0, (base / "log").read_text()
            from slicewright.rehearsal.cluster.node.forks import Forks
            loaded = (*launcher.INTERPRETER, "-c", {_SELF!r}, "/code/program", "no hash")
            spec = launcher.LaunchSpec(argv=loaded, env={{}}, node_root=node.root,
                log=base / "forked", uid=65532, gid=65532,
                binds=(launcher.Bind(source=base / "program", target=Path("/code")),))
            assert Forks({{}}).start(spec).wait(timeout=180) == 0, (base / "forked").read_text()
        """
        done = subprocess.run(
            [
                _SYSTEM_PYTHON,
                *(["-c", WITHOUT_SYS_ADMIN] if root else ["-c"]),
                textwrap.dedent(script),
            ],
            user=None if root else 65534,
            group=None if root else 65534,
            extra_groups=[],
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if "does not allow" in done.stderr:
            pytest.skip(f"unprivileged user namespaces: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        assert (base / "log").read_text().splitlines()[0] == "65532"
        assert "mig-enabled: false" in (base / "log").read_text()
        assert (base / "forked").read_text().split() == ["65532", "CapEff:", "0" * 16]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def test_without_namespaces_the_error_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = subprocess.CompletedProcess(
        [],
        126,
        "",
        "rehearsal: the node's file system cannot be built: unshare of mounts: Operation "
        "not permitted\n",
    )
    lacking = privileges.Privileges(root=False, sys_admin=False, filtered=False)
    monkeypatch.setattr(launcher.subprocess, "run", lambda *_, **__: refused)
    monkeypatch.setattr(launcher, "own", lambda: lacking)
    launcher.why_not.cache_clear()
    try:
        reason = launcher.why_not()
        assert reason is not None
        assert "unshare of mounts: Operation not permitted" in reason
        assert "also with SLICEWRIGHT_REHEARSAL_OPERANDS=simulated" in reason
        assert reason.endswith(privileges.missing(lacking))
    finally:
        launcher.why_not.cache_clear()


def test_programs_that_share_their_processes_find_and_signal_each_other(
    make_node: Any, tmp_path: Path
) -> None:
    node = make_node(count=1)
    script = "trap 'echo got it; exit 3' HUP; echo waiting; while :; do sleep 0.05; done"
    waiting, log = node.start("/bin/sh", "-c", script, processes=tmp_path)
    _await_line(log, "waiting")
    find = """
        for p in /proc/[0-9]*; do
          [ "${p#/proc/}" = $$ ] || kill -HUP ${p#/proc/}
        done
        grep -q ^nvidia /proc/modules && cat /proc/self/comm
    """
    other, heard = node.start("/bin/sh", "-c", textwrap.dedent(find), processes=tmp_path)
    assert other.wait(timeout=180) == 0, heard.read_text()
    assert waiting.wait(timeout=180) == 3
    assert "got it" in log.read_text()
    assert heard.read_text() == "cat\n"


def _await_line(log: Path, line: str) -> None:
    deadline = time.monotonic() + 60
    while line not in log.read_text().splitlines():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
