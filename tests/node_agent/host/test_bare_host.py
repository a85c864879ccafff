"""The command on a server with six A100 and no Kubernetes, as docs/how-to/bare-host.md has it."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright import node_agent
from slicewright.rehearsal.cluster.silicon import state

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="partitioning GPUs needs root, on the fake as on a real driver"
)
Run = Callable[..., "subprocess.CompletedProcess[str]"]
NOBODY = 65532


@pytest.fixture
def server(silicon: Callable[..., Any]) -> Any:
    node = silicon("A100-40", 6)
    node.path.chmod(0o644)
    return node


@pytest.fixture
def mig_on(server: Any) -> Any:
    """GPU 2 in MIG mode, as after the reset."""
    state.set_mig_mode(server.path, 2, enabled=True)
    return server


def _places(node: Any, gpu: int = 2) -> list[tuple[str, int, int, int]]:
    """Profile, start, size, compute instances."""
    instances = state.load(node.path).gpus[gpu].instances
    return sorted((i.profile, i.start, i.slice.size, len(i.compute_instances)) for i in instances)


def _start(node: Any, fake_library: Path, *arguments: str) -> subprocess.Popen[str]:
    """The agent, still at work when this returns."""
    return subprocess.Popen(
        [sys.executable, "-m", "slicewright.node_agent", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(fake_library.parent),
            state.VARIABLE: str(node.path),
        },
        cwd=Path(node_agent.__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _modes(node: Any) -> list[tuple[bool, bool]]:
    return [(g.mig, g.mig_pending) for g in state.load(node.path).gpus]


def test_from_whole_to_halves_to_sevenths_to_whole(command: Run, server: Any) -> None:
    node, off = server, (False, False)
    # MIG on, GPU 2 only. Ampere needs a reset, which NVML does not have: it is said,
    # and nothing else is done.
    first = command(node, "apply", "2:3g.20gb@0,3g.20gb@4")
    assert (first.returncode, first.stderr) == (4, "")
    assert (
        "GPU 2: MIG mode turns on with the GPU's next reset. Stop its programs, then run "
        "nvidia-smi -i 2 --gpu-reset" in first.stdout
    )
    assert "reboot" in first.stdout
    assert _modes(node) == [off, off, (False, True), off, off, off]
    state.reboot(node.path)
    # Two GPU instances at 0:4 and 4:4, each with its compute instance.
    second = command(node, "apply", "2:3g.20gb@0,3g.20gb@4")
    assert (second.returncode, second.stderr) == (0, "")
    assert _places(node) == [("3g.20gb", 0, 4, 1), ("3g.20gb", 4, 4, 1)]
    assert [
        i.id for i in sorted(state.load(node.path).gpus[2].instances, key=lambda i: i.start)
    ] == [2, 1]
    # Again: nothing changes.
    was = state.load(node.path)
    again = command(node, "apply", "2:3g.20gb@0,3g.20gb@4")
    assert (again.returncode, again.stdout) == (0, "nothing to do: GPU 2 3g.20gb@0,3g.20gb@4\n")
    assert state.load(node.path) == was
    # sevenths on the same GPU.
    assert command(node, "apply", "2:1g.5gb*7").returncode == 0
    assert _places(node) == [("1g.5gb", start, 1, 1) for start in range(7)]
    # all instances go, compute instances first; MIG stays on.
    emptied = command(node, "apply", "2:empty")
    assert (
        emptied.stdout.count("destroy compute instance")
        == emptied.stdout.count("destroy GPU instance")
        == 7
    )
    assert (_places(node), _modes(node)[2]) == ([], (True, True))
    # MIG off.
    cleared = command(node, "clear", "2")
    assert cleared.returncode == 4
    assert "GPU 2: MIG mode turns off with the GPU's next reset" in cleared.stdout
    state.reboot(node.path)
    assert _modes(node) == [off] * 6
    assert command(node, "clear", "2").stdout == "nothing to do: GPU 2 off\n"


def test_no_other_gpu_is_touched(command: Run, mig_on: Any) -> None:
    for gpu in (4, 5):
        state.repartition(mig_on.path, gpu, ["3g.20gb", "3g.20gb"])
    others = [g for g in state.load(mig_on.path).gpus if g.index != 2]
    for layout in ("2:3g.20gb*2", "2:1g.5gb*7", "2:off"):
        assert command(mig_on, "apply", layout).returncode in (0, 4)
        assert [g for g in state.load(mig_on.path).gpus if g.index != 2] == others


def test_a_gpu_in_use_is_refused_with_pid_and_name(command: Run, server: Any) -> None:
    for pid, name in ((101, "python"), (102, "python"), (999999, "tritonserver")):
        state.run_process(server.path, state.Process(gpu=2, pid=pid, name=name))
    was = state.load(server.path)
    refused = command(server, "apply", "2:3g.20gb*2")
    assert refused.returncode == 1
    assert "GPU 2 is in use by process 101 (python" in refused.stderr
    assert "process 999999 (tritonserver)" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert state.load(server.path) == was
    assert command(server, "apply", "--dry-run", "2:3g.20gb*2").returncode == 1
    assert command(server, "apply", "0:3g.20gb*2").returncode == 4, "another GPU is free"


def test_apply_can_wait_for_a_gpu_in_use(mig_on: Any, fake_library: Path) -> None:
    state.run_process(mig_on.path, state.Process(gpu=2, pid=101))
    state.repartition(mig_on.path, 2, ["7g.40gb"])
    process = _start(mig_on, fake_library, "apply", "--wait", "60", "2:3g.20gb*2")
    assert process.stderr is not None
    assert process.stderr.readline().startswith(
        "waiting up to 60 s: GPU 2 is in use by process 101"
    )
    state.end_processes(mig_on.path)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(_places(mig_on)) == 2


@pytest.mark.parametrize(
    ("seconds", "code"), [("0", 0), ("86400", 0), ("86401", 2), ("-1", 2), ("soon", 2)]
)
def test_apply_can_wait_for_a_day(command: Run, mig_on: Any, seconds: str, code: int) -> None:
    """As long as `in_use` of a stack file may say."""
    answer = command(mig_on, "apply", "--dry-run", f"--wait={seconds}", "2:3g.20gb*2")
    assert answer.returncode == code
    assert ("is not a number of seconds from 0 to 86400" in answer.stderr) == (code == 2)


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "anybody"])
def test_the_profiles_are_listed(command: Run, mig_on: Any, user: int | None) -> None:
    table = {
        line.split()[0]: line.split()
        for line in command(mig_on, "show", "--profiles", user=user).stdout.splitlines()
        if line
    }
    # ID, max, slices, SMs, MiB (4.75 GiB), then engines and where.
    assert table["1g.5gb"][1:6] == ["19", "7", "1", "14", "4864"]
    assert table["7g.40gb"][1:6] == ["0", "1", "7", "98", "40192"]
    where = "root only" if user else "0, 4 (each 4)"
    assert " ".join(table["3g.20gb"][7:]) == where


def test_a_profile_is_named_by_number_or_name(command: Run, mig_on: Any) -> None:
    assert command(mig_on, "apply", "2:9,3g.20gb").returncode == 0
    assert _places(mig_on) == [("3g.20gb", 0, 4, 1), ("3g.20gb", 4, 4, 1)]
    assert command(mig_on, "verify", "2:9*2").returncode == 0


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "anybody"])
def test_anybody_sees_the_picture(command: Run, mig_on: Any, user: int | None) -> None:
    state.repartition(mig_on.path, 2, ["3g.20gb", "2g.10gb"])
    shown = command(mig_on, "show", user=user)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "GPU 2  NVIDIA A100-SXM4-40GB" in shown.stdout
    box = [line for line in shown.stdout.splitlines() if line.startswith("  │")]
    assert len(box) == 2
    assert ["3g.20gb" in box[0], "2g.10gb" in box[0], "GI 2" in box[1] or "GI 1" in box[1]] == [
        True
    ] * 3
    if user is None:
        # Two free memory slices between, or at the end: what is drawn is where NVML says.
        starts = {i.profile: i.start for i in state.load(mig_on.path).gpus[2].instances}
        assert all(box[0].index(profile) == 4 + 9 * start for profile, start in starts.items())
    uuids = [c.uuid for i in state.load(mig_on.path).gpus[2].instances for c in i.compute_instances]
    assert all(uuid in shown.stdout for uuid in uuids)


def test_persistence_mode_that_is_off_is_reported_with_the_command_that_turns_it_on(
    command: Run, mig_on: Any
) -> None:  # S2-07
    state.set_health(mig_on.path, 2, persistence=0)
    done = command(mig_on, "apply", "2:3g.20gb*2")
    assert done.returncode == 0
    assert "GPU 2: persistence mode is off" in done.stderr
    assert "nvidia-smi -i 2 -pm 1" in done.stderr
    assert command(mig_on, "apply", "2:empty").stderr == done.stderr
    assert command(mig_on, "apply", "3:off").stderr == ""


def test_both_forms_of_address_are_understood(command: Run, mig_on: Any) -> None:
    state.repartition(mig_on.path, 2, ["3g.20gb", "3g.20gb"])
    gpu = state.load(mig_on.path).gpus[2]
    for instance in gpu.instances:
        (compute,) = instance.compute_instances
        for address in (compute.uuid, f"MIG-{gpu.uuid}/{instance.id}/{compute.id}"):
            shown = command(mig_on, "show", address)
            assert shown.returncode == 0, shown.stderr
            assert shown.stdout.startswith(
                f"{compute.uuid}  3g.20gb on GPU 2 (NVIDIA A100-SXM4-40GB), GPU instance "
                f"{instance.id},"
            )
    assert command(mig_on, "show", gpu.uuid).stdout.startswith("GPU 2 ")
    gone = command(mig_on, "show", f"MIG-{gpu.uuid}/7/0")
    assert (gone.returncode, "is not on this machine" in gone.stderr) == (2, True)
    assert command(mig_on, "show", "GPU2").returncode == 2


def test_setup_is_for_root(command: Run, mig_on: Any) -> None:
    was = state.load(mig_on.path)
    for arguments in (
        ["apply", "2:3g.20gb*2"],
        ["clear", "all"],
        ["apply", "--dry-run", "2:3g.20gb*2"],
    ):
        refused = command(mig_on, *arguments, user=NOBODY)
        assert refused.returncode == 2
        assert "needs root: run it with sudo" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert state.load(mig_on.path) == was
    assert command(mig_on, "verify", "2:empty", user=NOBODY).returncode == 0


@pytest.mark.parametrize(
    "layout", ["4g.20gb*2", "3g.20gb*3", "3g.20gb*2,1g.5gb", "3g.20gb@2", "3g.40gb", "9g.5gb"]
)
def test_an_impossible_layout_is_refused_and_changes_nothing(
    command: Run, mig_on: Any, layout: str
) -> None:
    state.repartition(mig_on.path, 2, ["2g.10gb"])
    was = state.load(mig_on.path)
    refused = command(mig_on, "apply", f"2:{layout}")
    assert refused.returncode == 1
    assert "GPU 2 (NVIDIA A100-SXM4-40GB): " in refused.stderr
    assert state.load(mig_on.path) == was


def test_a_dry_run_tells_the_steps_and_does_none(command: Run, mig_on: Any) -> None:
    state.repartition(mig_on.path, 2, ["7g.40gb"])
    was = state.load(mig_on.path)
    planned = command(mig_on, "apply", "--dry-run", "2:3g.20gb*2")
    assert planned.returncode == 0
    assert planned.stdout.splitlines() == [
        "GPU 2: destroy compute instance 0 of GPU instance 0 (7g.40gb)",
        "GPU 2: destroy GPU instance 0, 7g.40gb at 0",
        "GPU 2: create 3g.20gb at 0 with a compute instance of 3 slices",
        "GPU 2: create 3g.20gb at 4 with a compute instance of 3 slices",
        "dry run: nothing was changed",
    ]
    assert state.load(mig_on.path) == was


def test_after_a_reboot_the_file_brings_the_partitions_back(
    command: Run, mig_on: Any, tmp_path: Path
) -> None:
    """What the systemd unit does."""
    layout = tmp_path / "layout"
    layout.write_text("# the research server\n2:3g.20gb@0,3g.20gb@4\n4-5:off\n")
    assert command(mig_on, "apply", "--wait", "1", "--file", str(layout)).returncode == 0
    state.reboot(mig_on.path)
    assert command(mig_on, "verify", "--file", str(layout)).returncode == 1
    assert command(mig_on, "apply", "--wait", "1", "--file", str(layout)).returncode == 0
    assert command(mig_on, "verify", "--file", str(layout)).returncode == 0
    assert _places(mig_on) == [("3g.20gb", 0, 4, 1), ("3g.20gb", 4, 4, 1)]


def test_the_unit_calls_the_command_as_it_is() -> None:
    unit = (Path(node_agent.__file__).parent / "systemd/slicewright-partitions.service").read_text()
    (start,) = [
        line.removeprefix("ExecStart=")
        for line in unit.splitlines()
        if line.startswith("ExecStart=")
    ]
    from slicewright.node_agent.cli import parser_for

    arguments = start.split()[1:]
    options = parser_for(arguments).parse_args(arguments)
    assert (options.command, options.file, options.wait) == (
        "apply",
        Path("/etc/slicewright/layout"),
        60.0,
    )
    assert "SuccessExitStatus=4" in unit


def test_the_unit_gives_up_however_long_a_try_takes() -> None:
    """systemd counts starts within StartLimitIntervalSec: tries that take longer than it allows for
    go on for ever.
    """
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(Path(node_agent.__file__).parent / "systemd/slicewright-partitions.service")
    service, limit = unit["Service"], unit["Unit"]
    assert service["Restart"] == "on-failure"
    one_try_s = sum(
        int(service[key]) for key in ("TimeoutStartSec", "TimeoutStopSec", "RestartSec")
    )
    hours = limit["StartLimitIntervalSec"]
    assert hours.endswith("h")
    assert int(limit["StartLimitBurst"]) * one_try_s < int(hours.removesuffix("h")) * 3600


def test_verify_names_the_wrong_placement(command: Run, mig_on: Any) -> None:
    state.repartition(mig_on.path, 2, ["3g.20gb"])
    (start,) = [i.start for i in state.load(mig_on.path).gpus[2].instances]
    other = 4 - start
    assert command(mig_on, "verify", f"2:3g.20gb@{start}").returncode == 0
    judged = command(mig_on, "verify", f"2:3g.20gb@{other}")
    assert judged.returncode == 1
    assert f"GPU 2 wanted 3g.20gb at {other}, found at {start}" in judged.stdout


def test_apply_reads_the_layout_that_show_prints(command: Run, mig_on: Any) -> None:
    state.repartition(mig_on.path, 2, ["1c.3g.20gb", "1c.3g.20gb", "2g.10gb", "1g.5gb+me"])
    said = command(mig_on, "show", "--layout").stdout
    assert command(mig_on, "apply", *said.split()).stdout.startswith("nothing to do")
    state.repartition(mig_on.path, 2, ["7g.40gb"])
    assert command(mig_on, "apply", *said.split()).returncode == 0
    assert command(mig_on, "show", "--layout").stdout == said


def test_layout_of_show_follows_a_gpu_to_another_index(command: Run, mig_on: Any) -> None:
    """Numbers may change with a reboot: the file for after it must not cut another GPU."""
    state.repartition(mig_on.path, 2, ["3g.20gb", "2g.10gb"])
    uuid = state.load(mig_on.path).gpus[2].uuid
    said = command(mig_on, "show", "--layout").stdout.split()

    def swapped(node: state.NodeSilicon) -> state.NodeSilicon:
        gpus = list(node.gpus)
        gpus[2], gpus[5] = replace(gpus[5], index=2), replace(gpus[2], index=5)
        return replace(node, gpus=tuple(gpus))

    state.change(mig_on.path, swapped)
    assert state.load(mig_on.path).gpus[5].uuid == uuid
    assert command(mig_on, "apply", *said).stdout.startswith("nothing to do")


def test_show_writes_no_layout_that_leaves_out_a_lost_gpu(command: Run, mig_on: Any) -> None:
    state.lose(mig_on.path, 3)
    refused = command(mig_on, "show", "--layout")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("slicewright-agent: show --layout: GPU 3: nvmlDevice")
    assert refused.stderr.count("\n") == 1


def test_the_layout_of_chosen_gpus_only_can_be_written(command: Run, mig_on: Any) -> None:
    """For a file that leaves the machine's other GPUs to others."""
    state.repartition(mig_on.path, 2, ["3g.20gb", "3g.20gb"])
    state.lose(mig_on.path, 3)
    gpus = state.load(mig_on.path).gpus
    (compute,) = gpus[2].instances[0].compute_instances
    said = command(mig_on, "show", "2,4", "--layout")
    assert (said.returncode, said.stdout) == (
        0,
        f"{gpus[2].uuid}:3g.20gb@0,3g.20gb@4\n{gpus[4].uuid}:off\n",
    )
    assert command(mig_on, "show", "2-3", "--layout").returncode == 2
    part = command(mig_on, "show", compute.uuid, "--layout")
    assert (part.returncode, part.stdout) == (2, "")
    assert f"--layout works on whole GPUs only; write 2 or {gpus[2].uuid}" in part.stderr


def test_gpus_without_mig_have_no_layout_to_write(
    command: Run, silicon: Callable[..., Any]
) -> None:
    for arguments in (["show", "--layout"], ["show", "0", "--layout"]):
        answer = command(silicon("T4", 1), *arguments)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == (
            "slicewright-agent: show --layout: none of these GPUs supports MIG\n"
        )


def test_a_mode_that_waits_for_a_reset_is_written_as_it_will_be(command: Run, mig_on: Any) -> None:
    assert command(mig_on, "apply", "1:empty", "2:off").returncode == 4
    said = command(mig_on, "show", "--layout").stdout
    state.reboot(mig_on.path)
    assert command(mig_on, "apply", *said.split()).stdout.startswith("nothing to do")
    assert [line.partition(":")[2] for line in said.splitlines()] == [
        "off",
        "empty",
        "off",
        "off",
        "off",
        "off",
    ]


def test_a_machine_without_gpus_matches_no_layout(command: Run, mig_on: Any) -> None:
    state.change(mig_on.path, lambda node: replace(node, gpus=()))
    for arguments in (["verify", "all:1g.5gb*7"], ["apply", "all:1g.5gb*7"], ["clear", "all"]):
        answer = command(mig_on, *arguments)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == "slicewright-agent: all: this machine has no GPU\n"
    assert command(mig_on, "show", "--layout").returncode == 2


def test_verify_names_the_wanted_layout_when_the_driver_does_not_answer(
    command: Run, mig_on: Any
) -> None:
    state.inject(mig_on.path, state.Injection(call="nvmlInit", code=9))
    judged = command(mig_on, "verify", "0:off", "1-2:3g.20gb*2")
    assert judged.returncode == 2
    assert judged.stdout.startswith(
        "Unknown: host wanted 0:off 1,2:3g.20gb*2, found nvmlInit: Driver Not Loaded:"
    )


def test_gpu_held_by_an_unlisted_process_is_rolled_back(
    command: Run, silicon: Callable[..., Any]
) -> None:
    """A monitor keeps the mode from changing: the driver leaves it pending, which must not stay."""
    node = silicon("H100-80", 2)
    # The process is listed nowhere: as for a client without a context.
    state.inject(
        node.path,
        state.Injection(call="nvmlDeviceGetComputeRunningProcesses", code=3),
    )
    state.run_process(node.path, state.Process(gpu=0, pid=77, name="nv-hostengine"))
    refused = command(node, "apply", "0:3g.40gb*2")
    assert refused.returncode == 1
    assert "In use by another client" in refused.stderr
    assert "rolled back: every GPU is as before" in refused.stderr
    assert [(g.mig, g.mig_pending) for g in state.load(node.path).gpus] == [(False, False)] * 2


def test_clear_needs_gpus_to_be_named(command: Run, mig_on: Any) -> None:
    state.repartition(mig_on.path, 2, ["3g.20gb", "3g.20gb"])
    was = state.load(mig_on.path)
    refused = command(mig_on, "clear")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "slicewright-agent: clear: name the GPUs (2, 0-3 or GPU-<uuid>), or write `clear all` for "
        "every GPU\n"
    )
    assert state.load(mig_on.path) == was
    assert command(mig_on, "clear", "GPU2").returncode == 2


def test_clear_all_is_every_gpu(command: Run, silicon: Callable[..., Any]) -> None:
    node = silicon("H100-80", 2)
    for index in range(2):
        state.repartition(node.path, index, ["3g.40gb", "3g.40gb"])
    assert command(node, "clear", "all").returncode == 0
    assert [gpu.mig for gpu in state.load(node.path).gpus] == [False, False]


@pytest.fixture
def six(silicon: Callable[..., Any]) -> Any:
    """Six GPUs with two halves each, but the third with sevenths."""
    node = silicon("H100-80", 6)
    for index in range(6):
        state.repartition(node.path, index, ["1g.10gb"] * 7 if index == 2 else ["3g.40gb"] * 2)
    return node


def test_show_draws_gpus_with_the_same_layout_once(command: Run, six: Any) -> None:
    shown = command(six, "show").stdout
    heads = [line for line in shown.splitlines() if line.startswith("GPU ")]
    assert [head.partition("  ")[0] for head in heads] == ["GPU 0-1, 3-5", "GPU 2"]
    assert shown.count("CUDA_VISIBLE_DEVICES") == 2
    assert shown.count("│ 3g.40gb") == 2, "one picture for five GPUs"
    for gpu in state.load(six.path).gpus:
        assert gpu.uuid in shown
        for instance in gpu.instances:
            assert all(device.uuid in shown for device in instance.compute_instances)


def test_show_lists_the_profiles_of_equal_gpus_once(command: Run, six: Any) -> None:
    listed = command(six, "show", "--profiles").stdout
    assert listed.startswith("GPU 0-5  NVIDIA H100 80GB HBM3\n")
    assert listed.count("placements") == 1


def test_show_takes_gpus_as_apply_and_clear_do(command: Run, six: Any) -> None:
    gpus = state.load(six.path).gpus
    for text, indexes in (("2", [2]), ("0-1,4", [0, 1, 4]), (gpus[3].uuid, [3]), ("all", range(6))):
        shown = command(six, "show", text)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert [i for i, gpu in enumerate(gpus) if gpu.uuid in shown.stdout] == [*indexes]
    assert json.loads(command(six, "show", "2", "--json").stdout)["uuid"] == gpus[2].uuid
    several = json.loads(command(six, "show", "0,2", "--json").stdout)
    assert [gpu["index"] for gpu in several["gpus"]] == [0, 2]
    assert command(six, "show", "2", "--profiles").stdout.startswith("GPU 2  NVIDIA H100")
    absent = command(six, "show", "7")
    assert absent.returncode == 2
    assert "7: no such GPU; this machine has GPU 0, 1, 2, 3, 4, 5" in absent.stderr
    wrong = command(six, "show", "first")
    assert wrong.returncode == 2
    assert "'first' names neither GPUs nor a MIG device; write GPUs as 2, 0-3" in wrong.stderr


def test_without_a_driver_verify_speaks_of_the_host(command: Run, mig_on: Any) -> None:
    nowhere = replace(mig_on, library=mig_on.path.parent / "nowhere" / "lib")
    judged = command(nowhere, "verify", "all:1g.5gb*7")
    assert judged.returncode == 2
    assert judged.stdout.startswith(
        "Unknown: host wanted all:1g.5gb*7, found nvmlInit: NVML Shared Library Not Found: the "
        "NVIDIA driver is not installed on this host; install the NVIDIA driver; if `nvidia-smi` "
        "works, the library is missing from the loader's path"
    )
    assert "pod" not in judged.stdout
