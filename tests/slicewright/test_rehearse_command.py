"""`slicewright rehearse`: its help, and wrong use: one message, an exit code, nothing made or lost.

Nothing is started here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import slicewright
from slicewright import cli
from slicewright.infra import plan
from slicewright.rehearsal.host.processes import ENVIRONMENT_VARIABLE
from slicewright.rehearsal.scenario import faults, stack_check
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import NoSuchFault
from tests.repository_stacks import NAMES

ACTIONS = ("run", "env", "break", "repair", "stop", "destroy")


@pytest.fixture(autouse=True)
def _no_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)


def ended(directory: Path, stack: str) -> Environment:
    """An environment whose processes have ended."""
    environment = Environment((directory / stack).resolve())
    (environment.root / "processes").mkdir(parents=True)
    (environment.root / "toolchain.json").write_text(
        '{"pulumi": "/p", "control_plane": "/c", "kwok": "/k", "mig_parted": "/m", '
        '"mig_manager": "/m", "device_plugin": "/d", "config_manager": "/m", '
        '"gpu_feature_discovery": "/g", "mps_control_daemon": "/m", '
        '"gke_device_plugin": "/g", "fake_nvml": "/f", "fake_cuda": "/f"}'
    )
    return environment


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli.main(["rehearse", *map(str, arguments)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out + told.err


@pytest.mark.parametrize(
    "name", ["nope", "GKE-H100", "../gke-h100", "/etc", "Pulumi.gke-h100.yaml", "gke-h100,eks-a100"]
)
def test_a_name_that_is_no_stack_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    code, told = _run(capsys, "--stack", name, "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "no stack" in told
    assert set(NAMES) <= set(told.partition("; there are ")[2].strip().split(", "))
    assert not (tmp_path / "r").exists()


def test_an_installed_package_says_that_a_rehearsal_needs_a_clone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "slicewright" / "__init__.py"
    monkeypatch.setattr(slicewright, "__file__", str(package))
    code, told = _run(capsys, "--stack", "gke-h100", "--directory", tmp_path / "r")
    assert code == cli.CANNOT_RUN
    assert "the rehearsal runs in a clone of slicewright" in told


def test_a_stack_that_cannot_be_brought_up_yet_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    text = (stack_check.PROJECT / "stacks/Pulumi.fractional.yaml").read_text()
    assert "provider: hami" in text
    (stacks / "Pulumi.vke.yaml").write_text(text.replace("provider: hami", "provider: vke"))
    monkeypatch.setattr(stack_check, "PROJECT", tmp_path)
    code, told = _run(capsys, "--stack", "vke", "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "stacks/Pulumi.vke.yaml:" in told


def test_a_directory_of_the_user_is_not_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "gke-h100").mkdir(mode=0o755)
    (tmp_path / "gke-h100" / "thesis.txt").write_text("years of work")
    code, told = _run(capsys, "--stack", "gke-h100", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "is not a rehearsal environment" in told
    assert (tmp_path / "gke-h100" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "gke-h100").stat().st_mode & 0o777 == 0o755
    assert (
        _run(capsys, "destroy", "--force", "--stack", "gke-h100", "--directory", tmp_path)[0]
        == cli.VERIFIED
    )
    assert (tmp_path / "gke-h100" / "thesis.txt").exists()


def test_a_kept_environment_is_not_taken_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "gke-h100" / "processes").mkdir(parents=True)
    (tmp_path / "gke-h100" / "kept").touch()
    code, told = _run(capsys, "--stack", "gke-h100", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert f"`slicewright rehearse destroy --stack gke-h100 --directory {tmp_path}`" in told
    assert (tmp_path / "gke-h100" / "kept").exists()


@pytest.mark.parametrize("action", ["env", "break", "repair"])
def test_missing_environment_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    code, told = _run(capsys, action, "--stack", "gke-h100", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "not a rehearsal environment" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("running", "told_too"),
    [((), "none was left running"), (("gke-h100", "eks-a100"), "there are eks-a100, gke-h100")],
)
def test_the_default_stack_is_the_only_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, running: tuple[str, ...], told_too: str
) -> None:
    for stack in running:
        (tmp_path / stack / "processes").mkdir(parents=True)
    code, said = _run(capsys, "break", "--directory", tmp_path)
    assert code == cli.BAD_INPUT
    assert "name one stack" in said
    assert told_too in said


@pytest.mark.parametrize("action", ["env", "break", "repair"])
def test_an_environment_that_has_ended_is_named_in_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    """On stdout a shell would evaluate it: eval "$(slicewright rehearse env)"."""
    ended(tmp_path, "gke-h100")
    code = cli.main(["rehearse", action, "--stack", "gke-h100", "--directory", str(tmp_path)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (cli.CANNOT_RUN, "", 1)
    assert "is not running" in err
    assert f"`slicewright rehearse destroy --stack gke-h100 --directory {tmp_path}`" in err
    assert f"`slicewright rehearse run --stack gke-h100 --keep --directory {tmp_path}`" in err


@pytest.mark.parametrize("action", ["env", "break", "repair"])
def test_the_exported_environment_is_the_default_wherever_one_stands(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    action: str,
) -> None:
    environment = ended(tmp_path, "gke-h100")
    ended(tmp_path, "eks-a100")
    environment.project.mkdir()
    monkeypatch.chdir(environment.project)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(environment.root))
    code, said = _run(capsys, action)
    assert code == cli.CANNOT_RUN
    assert f"gke-h100 in {environment.root} is not running" in said


def test_the_running_environment_is_chosen_beside_an_interrupted_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = ended(tmp_path, "gke-h100")
    ended(tmp_path, "eks-a100")
    monkeypatch.setattr(Environment, "is_running", property(lambda self: self.root == running.root))
    code, said = _run(capsys, "env", "--directory", tmp_path)
    assert code == cli.VERIFIED
    assert f"{ENVIRONMENT_VARIABLE}={running.root}" in said


def _help(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as done:
        cli.main(["rehearse", *arguments, "--help"])
    assert done.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_names_the_actions_and_how_to_rehearse_your_stack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = _help(capsys)
    assert all(f" {action} " in said for action in ACTIONS)
    assert "`slicewright rehearse --stack NAME` for stacks/Pulumi.NAME.yaml" in said
    assert "--profile" not in said


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_a_help_page_with_its_own_options_only(
    capsys: pytest.CaptureFixture[str], action: str
) -> None:
    said = _help(capsys, action)
    assert said.startswith(f"usage: slicewright rehearse {action} ")
    own = {"run": "--keep", "destroy": "--force", "break": "--profile"}
    assert {o for o in own.values() if o in said} == ({own[action]} if action in own else set())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--stack", "gke-h100", "--force", "destroy", "--directory", "D"),
        ("--directory", "D", "destroy", "--force", "--stack", "gke-h100"),
        ("--directory", "D", "--stack", "gke-h100", "destroy", "--force"),
    ],
    ids=" ".join,
)
def test_options_may_stand_before_and_after_the_action(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    environment = ended(tmp_path, "gke-h100")
    code, said = _run(capsys, *(str(tmp_path) if a == "D" else a for a in arguments))
    assert code == cli.VERIFIED, said
    assert not environment.root.exists()


def test_stacks_named_before_and_after_the_action_are_all_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for stack in ("gke-h100", "eks-a100"):
        ended(tmp_path, stack)
    given = (
        "--stack",
        "gke-h100",
        "destroy",
        "--force",
        "--stack",
        "eks-a100",
        "--directory",
        tmp_path,
    )
    assert _run(capsys, *given)[0] == cli.VERIFIED
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == []


class TestFault:
    FLEET = plan.read_file(
        Path(cli.__file__).resolve().parents[1] / "stacks" / "Pulumi.gke-h100.yaml"
    )

    def test_the_default_pool_is_the_only_one(self) -> None:
        fault = faults.WrongLayout(pool="", node=0, gpu=3, profile="1g.10gb")
        assert faults.resolve(fault, self.FLEET) == dataclasses.replace(
            fault, pool="h100-partition-3g"
        )

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"pool": "x"}, "--pool x: the stack has no such pool; it has h100-partition-3g"),
            ({"node": 1}, "--node 1: pool h100-partition-3g has nodes 0 to 0"),
            ({"gpu": 8}, "--gpu 8: a node of h100-partition-3g has GPUs 0 to 7"),
            ({"profile": "9g.5gb"}, "--profile 9g.5gb: H100-80 has "),
        ],
    )
    def test_a_fault_without_effect_is_refused(self, wrong: dict[str, Any], told: str) -> None:
        fault = faults.WrongLayout(
            **{"pool": "h100-partition-3g", "node": 0, "gpu": 0, "profile": "1g.10gb", **wrong}
        )
        with pytest.raises(NoSuchFault) as refused:
            faults.resolve(fault, self.FLEET)
        assert told in str(refused.value)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """One that claims to run, without any node."""
    monkeypatch.setattr(Environment, "is_running", property(lambda self: True))
    return ended(tmp_path, "gke-h100")


def test_the_name_of_a_node_that_runs_needs_a_fault(
    capsys: pytest.CaptureFixture[str], running: Environment
) -> None:
    where = ("--stack", "gke-h100", "--directory", running.root.parent)
    code, said = _run(capsys, "break", "--node", "gke-main-1", *where)
    assert code == cli.BAD_INPUT
    assert "for a running node add --fault xid, lost-gpu, repartition" in said


def test_a_missing_node_cannot_be_broken(
    capsys: pytest.CaptureFixture[str], running: Environment
) -> None:
    where = ("--stack", "gke-h100", "--directory", running.root.parent)
    code, said = _run(capsys, "break", "--fault", "xid", "--node", "gke-main-1", *where)
    assert code == cli.BAD_INPUT
    assert "--node gke-main-1: there is no such node; there are no nodes with GPUs yet" in said


def test_repair_reports_that_nothing_is_broken(
    capsys: pytest.CaptureFixture[str], running: Environment
) -> None:
    where = ("--stack", "gke-h100", "--directory", running.root.parent)
    assert _run(capsys, "repair", *where) == (cli.VERIFIED, "no node had a fault\n")


def test_destroy_without_environments_reports_that(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, told = _run(capsys, "destroy", "--directory", tmp_path)
    assert code == cli.VERIFIED
    assert "nothing to destroy" in told


@pytest.mark.parametrize("action", [(), ("run",)])
def test_a_wrong_environment_variable_is_wrong_use(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    action: tuple[str, ...],
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME", "docker")
    code, said = _run(capsys, *action, "--directory", tmp_path)
    assert code == cli.BAD_INPUT
    assert "SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME=docker: must be legacy or cdi" in said
    assert list(tmp_path.iterdir()) == []
