"""What a person types first: `make`, `--version`, and `make clean` at the wrong moment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.node_agent import cli as agent_cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("command", "main"), [("slicewright", cli.main), ("slicewright-agent", agent_cli.main)]
)
def test_both_commands_print_the_version_of_the_project(
    command: str, main: object, capsys: pytest.CaptureFixture[str]
) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with pytest.raises(SystemExit) as ended:
        main(["--version"])  # type: ignore[operator]
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{command} {version}\n")


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl does."""
    assert cli.main([]) == cli.VERIFIED
    out, err = capsys.readouterr()
    assert err == ""
    assert all(f"\n    {command} " in out for command in ("check", "plan", "rehearse"))


def test_a_command_that_is_none_is_refused_with_all_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["pln"])
    assert ended.value.code == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert "'pln'" in error
    assert all(f"'{command}'" in error for command in ("check", "import-file", "rehearse"))


COMMANDS = (
    *("init", "check", "plan", "schema", "preview-report", "deployed", "rights", "doctor"),
    *("status", "rollout", "load", "drift", "import-file", "unlock", "recover", "destroy"),
    *("rehearse", "completion"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_help_explains_itself(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([]) == cli.VERIFIED
    assert re.search(rf"^    {command}\s", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: slicewright {command} ")


def test_a_command_imports_no_other() -> None:
    """They take a quarter of the time of a start."""
    imported = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, slicewright.cli\n"
            "try:\n    slicewright.cli.main(['plan', '--help'])\n"
            "finally:\n    print(*sys.modules, file=sys.stderr)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stderr.split()
    assert "slicewright.commands.plan" in imported
    others = {"doctor", "rollout", "status", "destroy", "rehearse"}
    assert not others & {name.removeprefix("slicewright.commands.") for name in imported}


def test_every_stack_that_is_named_is_planned_and_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert (
        cli.main(["plan", "-s", "gke-h100", "-s", "eks-a100", "stacks/Pulumi.hosts-a100.yaml"])
        == cli.VERIFIED
    )
    out = capsys.readouterr().out
    assert all(
        part in out for part in ("gke-h100: GKE", "eks-a100: EKS", "Pulumi.hosts-a100.yaml: hosts")
    )
    assert cli.main(["check", "-s", "gke-h100", "-s", "eks-a100"]) == cli.VERIFIED
    out = capsys.readouterr().out
    assert "stacks/Pulumi.gke-h100.yaml: ok" in out
    assert "stacks/Pulumi.eks-a100.yaml: ok" in out


def test_json_of_several_plans_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "-s", "gke-h100", "-s", "eks-a100", "--json"]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "--json writes one plan" in err


def test_make_help_names_every_target() -> None:
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # What does not fit into a line goes on, indented, on the next.
    targets = [line for line in shown.splitlines() if not line.startswith(" ")]
    assert sorted(line.split()[0] for line in targets) == sorted(" ".join(phony).split())
    assert all(len(line.split()) > 1 for line in targets)
    assert max(map(len, shown.splitlines())) <= 100


def _python_whose_pip_ends_with(code: int, directory: Path) -> Path:
    """A Python that makes environments in which pip says what pip says, and installs nothing."""
    pip = (
        "#!/bin/sh\n"
        "[ $2 = --quiet ] && exit 0\n"
        "seq 1 45 | sed 's/.*/Collecting p&==1 (from -r requirements.lock)/'\n"
        "echo Installing collected packages: p1, p2\n"
        f"exit {code}\n"
    )
    python = directory / "python"
    python.write_text(
        "#!/bin/sh\n"
        "[ $1 = -m ] || exit 0\n"
        "mkdir -p $3/bin\n"
        f"cat > $3/bin/pip <<'END'\n{pip}END\n"
        "chmod +x $3/bin/pip\n"
    )
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("code", [0, 3])
def test_make_setup_shows_every_twentieth_package_and_fails_with_pip(
    tmp_path: Path, code: int
) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = _python_whose_pip_ends_with(code, tmp_path)
    done = subprocess.run(
        ["make", "--no-print-directory", "setup", f"PYTHON={python}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is (code == 0), done.stderr
    first, *counted, last = done.stdout.splitlines()
    assert "1 to 3 minutes" in first
    assert [line.split(" of about ")[0] for line in counted] == [
        "Python environment: 20",
        "Python environment: 40",
    ]
    assert last == "Python environment: installing 45 packages"
    assert bool(list((tmp_path / ".venv").glob(".ready-*"))) is (code == 0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy with an environment of each kind to clean."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in (".venv/bin", ".rehearsal/s0/processes", ".rehearsal/s1/processes"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_make_clean_removes_all_build_outputs(project: Path) -> None:
    subprocess.run(["make", "-s", "clean"], cwd=project, check=True)
    assert not (project / ".venv").exists()
    assert not (project / ".rehearsal").exists()


def test_make_clean_refuses_while_a_rehearsal_runs_and_says_how_to_end_it(project: Path) -> None:
    """Its processes would go on without the directory that knows them."""
    (project / ".rehearsal/s1/processes/cloud.json").touch()
    refused = subprocess.run(
        ["make", "-s", "clean"], cwd=project, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "in .rehearsal: s1." in refused.stderr
    assert "make destroy" in refused.stderr
    assert (project / ".venv").exists()
    assert (project / ".rehearsal/s1/processes/cloud.json").exists()


@pytest.mark.parametrize("directory", [None, "environments"])
def test_a_stack_file_is_found_from_a_directory_below_the_project(
    directory: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = f"stackConfigDir: {directory}\n" if directory else ""
    (tmp_path / "Pulumi.yaml").write_text(f"name: fleet\nruntime: python\n{setting}")
    below = tmp_path / "docs"
    below.mkdir()
    monkeypatch.chdir(below)
    assert cli.main(["check", "-s", "dev"]) == cli.BAD_INPUT
    assert "there are no stacks" in capsys.readouterr().out
    stacks = tmp_path / (directory or ".")
    stacks.mkdir(exist_ok=True)
    shutil.copy(ROOT / "stacks" / "Pulumi.eks-a100.yaml", stacks / "Pulumi.dev.yaml")
    assert cli.main(["check", "-s", "dev"]) == cli.VERIFIED
    assert f"{stacks}/Pulumi.dev.yaml: ok" in capsys.readouterr().out
    assert cli.main(["check", "-s", "prod"]) == cli.BAD_INPUT
    assert "existing stacks: dev" in capsys.readouterr().out


def test_the_package_runs_as_a_module() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "slicewright", "check", "-s", "eks-a100"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (shown.returncode, shown.stderr) == (cli.VERIFIED, "")
    assert "Pulumi.eks-a100.yaml: ok" in shown.stdout
