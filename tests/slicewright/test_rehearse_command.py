"""Wrong use of `slicewright rehearse`: one message, an exit code, and nothing made or lost. Nothing
is started here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from infra import plan
from rehearsal.scenario import faults
from slicewright import cli


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli.main(["rehearse", *map(str, arguments)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out + told.err


@pytest.mark.parametrize("name", ["nope", "S0", "../s0", "/etc", "Pulumi.s0.yaml", "s0,s1"])
def test_a_name_that_is_no_stack_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    code, told = _run(capsys, "--stack", name, "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "no stack" in told
    assert "s0, s1" in told
    assert not (tmp_path / "r").exists()


def test_a_stack_that_cannot_be_brought_up_yet_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, told = _run(capsys, "--stack", "s3", "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "stacks/Pulumi.s3.yaml:" in told


def test_somebodys_own_directory_is_left_as_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s0").mkdir(mode=0o755)
    (tmp_path / "s0" / "thesis.txt").write_text("years of work")
    code, told = _run(capsys, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "is no rehearsal environment" in told
    assert (tmp_path / "s0" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "s0").stat().st_mode & 0o777 == 0o755
    assert (
        _run(capsys, "destroy", "--force", "--stack", "s0", "--directory", tmp_path)[0]
        == cli.PROVEN
    )
    assert (tmp_path / "s0" / "thesis.txt").exists()


def test_a_kept_environment_is_not_taken_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s0" / "processes").mkdir(parents=True)
    (tmp_path / "s0" / "kept").touch()
    code, told = _run(capsys, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "make destroy STACK=s0" in told
    assert (tmp_path / "s0" / "kept").exists()


@pytest.mark.parametrize("action", ["env", "break", "repair"])
def test_where_there_is_no_environment_it_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    code, told = _run(capsys, action, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "no rehearsal environment" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("running", "told_too"), [((), "none was left running"), (("s0", "s1"), "there are s0, s1")]
)
def test_without_a_stack_the_only_one_is_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, running: tuple[str, ...], told_too: str
) -> None:
    for stack in running:
        (tmp_path / stack / "processes").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        cli.main(["rehearse", "break", "--directory", str(tmp_path)])
    assert ended.value.code == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "name one stack" in said
    assert told_too in said


class TestFault:
    FLEET = plan.read_file(Path(cli.__file__).parents[1] / "stacks" / "Pulumi.s0.yaml")

    def test_without_a_pool_it_means_the_only_one(self) -> None:
        fault = faults.WrongLayout(pool="", node=0, gpu=3, profile="1g.10gb")
        assert faults.aimed(fault, self.FLEET) == dataclasses.replace(
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
    def test_one_that_could_never_bite_is_refused(self, wrong: dict[str, Any], told: str) -> None:
        fault = faults.WrongLayout(
            **{"pool": "h100-partition-3g", "node": 0, "gpu": 0, "profile": "1g.10gb", **wrong}
        )
        with pytest.raises(faults.NoSuchFault) as refused:
            faults.aimed(fault, self.FLEET)
        assert told in str(refused.value)


def test_nothing_to_destroy_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, told = _run(capsys, "destroy", "--directory", tmp_path)
    assert code == cli.PROVEN
    assert "nothing to destroy" in told
