"""`slicewright init` and `slicewright schema`, as a user types them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from slicewright import cli
from slicewright.init import writing

ROOT = Path(__file__).resolve().parents[3]
GKE = ("--cloud", "gke", "--google-project", "my-project")
EKS = ("--cloud", "eks", "--machine-type", "p4d.24xlarge", "--layout", "1g.5gb")
EXISTING = (
    "--cloud",
    "existing",
    "--contexts",
    "main",
    "--gpu",
    "A100-40",
    "--layout",
    "3g.20gb=2",
)
FILES = [
    ".gitignore",
    "Pulumi.yaml",
    "__main__.py",
    "requirements.txt",
    "stack-file.schema.json",
    "stacks/Pulumi.dev.yaml",
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(directory: Path) -> list[str]:
    return sorted(str(f.relative_to(directory)) for f in directory.rglob("*") if f.is_file())


@pytest.mark.parametrize("answers", [GKE, EKS, EXISTING], ids=lambda answers: answers[1])
def test_a_written_project_is_checked_and_planned_without_further_options(
    answers: Sequence[str],
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cli.main(["init", "ml-fleet", "--yes", *answers]) == cli.VERIFIED
    out, err = capsys.readouterr()
    assert err == ""
    assert "GPU" in out
    assert "written: ml-fleet/Pulumi.yaml" in out
    assert files_in(directory / "ml-fleet") == FILES
    monkeypatch.chdir(directory / "ml-fleet" / "stacks")
    assert cli.main(["check", "-s", "dev"]) == cli.VERIFIED
    assert "Pulumi.dev.yaml: ok, 1 pool" in capsys.readouterr().out
    assert cli.main(["plan", "-s", "dev"]) == cli.VERIFIED
    assert "ml-fleet-dev" in capsys.readouterr().out


def test_pulumi_yaml_names_program_environment_and_stack_files(directory: Path) -> None:
    assert cli.main(["init", "--yes", "--name", "ai", *GKE]) == cli.VERIFIED
    project = yaml.safe_load((directory / "Pulumi.yaml").read_text())
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": ".venv"}}
    assert (project["name"], project["runtime"], project["stackConfigDir"]) == (
        "ai",
        runtime,
        "stacks",
    )
    # The engine refuses types of configuration keys of other namespaces.
    assert "config" not in project
    program = (directory / "__main__.py").read_text()
    assert program == "from slicewright.infra.entry import main; main()\n"
    requirements = (directory / "requirements.txt").read_text()
    assert requirements.endswith("slicewright[doctor]==0.1.0\n")


def test_answers_are_asked_checked_and_drawn_one_by_one(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "",
        "azure",
        "gke",
        "dev,prod",
        "my-project",
        "",
        "a3-highgpu-8g",
        "9g.1gb",
        "3g.40gb",
        "2",
    ]
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(lines) + "\n"))
    assert cli.main(["init", "fleet"]) == cli.VERIFIED
    out, err = capsys.readouterr()
    assert err.count("Cloud: gke, eks, or existing") == 3
    assert "an answer is required" in err
    assert "'azure' is not supported" in err
    assert "Region [us-central1]: " in err
    assert "has no profile 9g.1gb" in err
    assert err.count("Partitions of each GPU: none, one of 1g.10gb,") == 2
    assert "memory  [    3g.40gb     ]" in out or "3g.40gb" in out.partition("written")[0]
    assert files_in(directory / "fleet") == [*FILES, "stacks/Pulumi.prod.yaml"]
    pool = yaml.safe_load((directory / "fleet/stacks/Pulumi.prod.yaml").read_text())["config"][
        "slicewright:fleet"
    ]["node_pools"][0]
    assert (pool["machine_type"], pool["nodes"]) == ("a3-highgpu-8g", {"count": 2})


def test_an_option_answers_its_question(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n\n"))
    options = (
        "--environments",
        "dev",
        "--region",
        "us-central1",
        "--machine-type",
        "a3-highgpu-8g",
    )
    assert cli.main(["init", *GKE, *options]) == cli.VERIFIED
    err = capsys.readouterr().err
    assert ("Region" in err, "Machine type" in err, "GPU nodes" in err) == (False, False, True)


def test_an_input_that_ends_writes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("gke\n"))
    assert cli.main(["init", "fleet"]) == cli.BAD_INPUT
    assert "the input ended before the last answer" in capsys.readouterr().err
    assert not any(directory.iterdir())


def test_without_a_terminal_answers_are_options(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("gke\n"))
    assert cli.main(["init", "fleet", *GKE]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "there is no terminal to ask on; pass --yes" in err
    assert not any(directory.iterdir())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "--cloud is required with --yes"),
        (("--cloud", "gke"), "--google-project is required with --yes"),
        (("--cloud", "existing"), "--contexts is required with --yes"),
        (("--cloud", "aks"), "--cloud: 'aks' is not supported"),
        ((*GKE, "--gpu", "T4"), "--gpu: no such question for the cloud gke"),
        ((*GKE, "--nodes", "0"), "--nodes: node_pools[0].nodes.count: must be at least 1"),
        ((*GKE, "--name", "A"), "--name: 'A' is not a valid name"),
        ((*GKE, "--region", "us-central1", "--machine-type", "g9"), "is not in the catalog"),
    ],
)
def test_a_wrong_option_writes_nothing(
    options: Sequence[str], reason: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["init", "fleet", "--yes", *options]) == cli.BAD_INPUT
    assert reason in capsys.readouterr().err
    assert not any(directory.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_overwritten(
    name: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / name).parent.mkdir(exist_ok=True)
    (directory / name).symlink_to("nowhere")
    assert cli.main(["init", "--yes", *GKE]) == cli.BAD_INPUT
    assert f"no file is overwritten, and these exist: {name}\n" in capsys.readouterr().err
    assert [f.name for f in directory.rglob("*") if f.is_symlink() or f.is_file()] == [
        Path(name).name
    ]


def test_a_directory_that_cannot_be_written_is_one_line(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "file").write_text("")
    assert cli.main(["init", "file/fleet", "--yes", *GKE]) == cli.CANNOT_RUN
    assert "slicewright init: file: " in capsys.readouterr().err
    assert files_in(directory) == ["file"]


def test_nothing_stays_of_files_that_could_not_all_be_written(directory: Path) -> None:
    files = {"a": "", "below/b": "", "below/" + "x" * 300: ""}
    with pytest.raises(OSError, match="too long"):
        writing.write(directory / "new", files)
    assert not any(directory.iterdir())


def test_the_schema_is_the_committed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == cli.VERIFIED
    committed = ROOT / "docs" / "reference" / "stack-file.schema.json"
    assert capsys.readouterr().out == committed.read_text()
