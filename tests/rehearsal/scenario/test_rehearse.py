"""What a rehearsal leaves and says when a command fails; nothing is started here."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slicewright.infra import plan
from slicewright.infra.plan import FleetPlan
from slicewright.rehearsal.clouds.gcp.gke import driver_delay
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.host import toolchain
from slicewright.rehearsal.host.toolchain import disk
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario import (
    existing_cluster,
    official_plugins,
    plugins_and_commands,
    rehearse,
)
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import DiskFull, WrongUse
from slicewright.rehearsal.scenario.rehearse import Rehearsal

GO_TRACE = "goroutine 1 [running]:\nerror: an unhandled error occurred: internal error\n"


class FailingEngine:
    """`pulumi up` fails; everything before it does not."""

    def __init__(self, environment: Environment, stack: str, sink: Any, **_: Any) -> None:
        pass

    def init(self) -> Outcome:
        return Outcome("pulumi stack select", 0, "", 0.1)

    def preview(self) -> Outcome:
        return Outcome("pulumi preview", 0, "", 0.1)

    def up(self) -> Outcome:
        return Outcome("pulumi up --yes", 255, GO_TRACE, 0.1)


COMMAND = "kubectl patch clusterpolicies.nvidia.com cluster-policy --type merge -p '{}'"


class RefusingEngine(FailingEngine):
    """The first `up` refuses the operator that it is to adopt; the second fails otherwise."""

    ups = 0

    def up(self) -> Outcome:
        self.ups += 1
        output = f"error: it does not have the settings that this stack needs:\n  {COMMAND}\n"
        return Outcome("pulumi up --yes", 255, output if self.ups == 1 else GO_TRACE, 0.1)


@pytest.fixture
def stopped() -> list[Path]:
    return []


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stopped: list[Path]
) -> Callable[..., tuple[bool, str]]:
    tools = toolchain.Toolchain(
        **dict.fromkeys(toolchain.Toolchain.__dataclass_fields__, Path("/bin/true"))
    )
    monkeypatch.setattr(launcher, "why_not", lambda: None)
    monkeypatch.setattr(toolchain, "ensure", lambda report, groups: tools)
    monkeypatch.setattr(environments, "start", lambda environment: None)
    monkeypatch.setattr(environments, "stop", lambda environment: stopped.append(environment.root))
    monkeypatch.setattr(rehearse, "Engine", FailingEngine)
    written = io.StringIO()

    def call(*, keep: bool) -> tuple[bool, str]:
        proven = Rehearsal(tmp_path, Console(file=written, width=140)).run(["gke-h100"], keep=keep)
        return proven, written.getvalue()

    return call


def test_a_failed_up_with_keep_leaves_everything_running_and_says_how_to_use_and_end_it(
    run: Callable[..., tuple[bool, str]], tmp_path: Path, stopped: list[Path]
) -> None:
    proven, said = run(keep=True)
    assert not proven
    assert stopped == []
    environment = Environment(tmp_path / "gke-h100")
    assert f"gke-h100 failed and is left running in {environment.root}" in said
    assert environment.exports() in said
    assert environment.command("destroy") in said
    assert environment.kept.exists()


def test_failed_up_without_keep_is_removed_and_names_the_logs(
    run: Callable[..., tuple[bool, str]], tmp_path: Path, stopped: list[Path]
) -> None:
    proven, said = run(keep=False)
    assert not proven
    assert stopped == [tmp_path / "gke-h100"]
    assert f"logs stay in {tmp_path / 'gke-h100'}" in said


def test_rehearse_runs_the_patch_command_of_up_and_then_up_again(
    run: Callable[..., tuple[bool, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(rehearse, "Engine", RefusingEngine)
    monkeypatch.setattr(existing_cluster, "run", lambda _, command: ran.append(command))
    proven, said = run(keep=False)
    assert ran == [COMMAND]
    assert "refused, with the command" in said
    assert not proven, "the second up has failed"


def test_a_disk_that_became_full_is_named_and_everything_is_ended(
    run: Callable[..., tuple[bool, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stopped: list[Path],
) -> None:
    free = iter([1e12])
    monkeypatch.setattr(disk, "free", lambda place: next(free, 0))
    with pytest.raises(DiskFull, match=r"the disk is full: .* `pulumi up` failed"):
        run(keep=True)
    assert stopped == [tmp_path / "gke-h100"]


def test_rehearse_refuses_too_little_space_before_it_creates_an_environment(
    run: Callable[..., tuple[bool, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(disk, "free", lambda place: 399e6)
    with pytest.raises(DiskFull, match="has 399 MB free, and an environment needs 400 MB"):
        run(keep=False)
    assert not (tmp_path / "gke-h100").exists()


@pytest.mark.parametrize(
    ("official", "said"),
    [
        ({}, ["Pulumi's plugins for gcp, aws and kubernetes are stand-ins"]),
        (
            {"kubernetes": "4.34.2"},
            ["for gcp and aws are stand-ins", "own resource-kubernetes-v4.34.2 runs"],
        ),
        (
            {"gcp": "10.2.0", "kubernetes": "4.34.2"},
            ["for aws are", "own resource-gcp-v10.2.0 and resource-kubernetes-v4.34.2 run"],
        ),
    ],
)
def test_the_banner_says_which_plugins_run(
    run: Callable[..., tuple[bool, str]],
    monkeypatch: pytest.MonkeyPatch,
    official: dict[str, str],
    said: list[str],
) -> None:
    paths = {p: Path(f"/p/resource-{p}-v{v}/pulumi-resource-{p}") for p, v in official.items()}
    monkeypatch.setattr(official_plugins, "chosen", lambda: paths)
    monkeypatch.setattr(plugins_and_commands, "install", lambda *_: None)
    banner = run(keep=False)[1]
    for words in said:
        assert words in banner


def test_missing_official_plugins_are_named_with_their_install_command(
    run: Callable[..., tuple[bool, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "ensure", lambda *_: pytest.fail("a tool was looked for"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEWRIGHT_PLUGINS", "official")
    with pytest.raises(WrongUse) as refused:
        run(keep=False)
    gcp, kubernetes = metadata.version("pulumi-gcp"), metadata.version("pulumi-kubernetes")
    assert str(refused.value) == (
        "SLICEWRIGHT_PLUGINS=official needs Pulumi's own plugins for gcp and kubernetes, and "
        f"{tmp_path / 'home'}/plugins has none of version v10, v4; install with: "
        f"pulumi plugin install resource gcp {gcp}; "
        f"pulumi plugin install resource kubernetes {kubernetes}. "
        "Without SLICEWRIGHT_PLUGINS the rehearsal's stand-ins run"
    )


@pytest.mark.parametrize(("asked", "counted_as"), [("nvidia", "real"), ("simulated", "simulated")])
def test_the_first_lines_say_whether_nvidias_programs_run(
    run: Callable[..., tuple[bool, str]],
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    counted_as: str,
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_OPERANDS", asked)
    said = run(keep=False)[1]
    real, simulated = said[said.index("real ") :].split("simulated ", 1)
    found = {"real": real, "simulated": simulated.split("kubernetes plugin")[0]}
    assert {key for key, text in found.items() if "NVIDIA's mig-manager" in text} == {counted_as}


@pytest.mark.parametrize(("nodes", "asked", "said_of"), [
    (1, "", ""), (16, "", ""), (17, "", "clusters of more than 16 GPU nodes"), (17, "own", ""),
    (1, "forked", "all clusters"),
])  # fmt: skip
def test_the_first_lines_say_where_programs_of_nodes_are_forked(
    run: Callable[..., tuple[bool, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nodes: int,
    asked: str,
    said_of: str,
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_NODE_PROGRAMS", asked)
    monkeypatch.setattr(rehearse, "check_stack", lambda stack: _s0(nodes, tmp_path))
    said = run(keep=False)[1]
    assert said_of in said
    assert ("the node agents too" in said) == bool(said_of)


def _s0(nodes: int, directory: Path) -> FleetPlan:
    file = directory / "Pulumi.gke-h100.yaml"
    text = (environments.PROJECT / "stacks" / file.name).read_text()
    file.write_text(text.replace("count: 1", f"count: {nodes}"))
    return plan.read_file(file)


def test_wrong_environment_variables_are_refused_together_before_anything_starts(
    run: Callable[..., tuple[bool, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "ensure", lambda *_: pytest.fail("a tool was looked for"))
    for name, value in (
        ("SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME", "docker"),
        ("SLICEWRIGHT_REHEARSAL_OPERANDS", "real"),
        ("SLICEWRIGHT_REHEARSAL_NODE_PROGRAMS", "shared"),
        ("SLICEWRIGHT_REHEARSAL_GKE_DRIVER_S", "a minute"),
        ("SLICEWRIGHT_PLUGINS", "mine"),
        ("SLICEWRIGHT_KUBERNETES_PLUGIN", "official"),
        ("SLICEWRIGHT_TOOLCHAIN_DOWNLOAD", "always"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(WrongUse) as refused:
        run(keep=False)
    assert str(refused.value) == (
        "SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME=docker: must be legacy or cdi; "
        "SLICEWRIGHT_REHEARSAL_OPERANDS=real: must be nvidia or simulated; "
        "SLICEWRIGHT_REHEARSAL_NODE_PROGRAMS=shared: must be own or forked; "
        "SLICEWRIGHT_REHEARSAL_GKE_DRIVER_S=a minute: must be seconds from 0 to 3600; "
        "SLICEWRIGHT_PLUGINS is 'mine'; it must be 'official' (Pulumi's own plugins for gcp, aws "
        "and kubernetes) or unset; "
        "SLICEWRIGHT_KUBERNETES_PLUGIN is 'official'; it must be 'stand-in' (never use an "
        "installed kubernetes plugin) or unset; "
        "SLICEWRIGHT_TOOLCHAIN_DOWNLOAD='always' is not one of auto, never"
    )
    assert not (tmp_path / "gke-h100").exists()


def test_an_environment_is_not_started_with_a_wrong_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME", "docker")
    with pytest.raises(WrongUse, match="must be legacy or cdi"):
        environments.start(Environment(tmp_path / "gke-h100"))


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "3601", "x"])
def test_a_delay_of_the_driver_that_is_no_number_of_seconds_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=f"={value}: must be seconds from 0 to 3600"):
        driver_delay.seconds({driver_delay.VARIABLE: value})
    assert driver_delay.seconds({driver_delay.VARIABLE: "60"}) == 60
