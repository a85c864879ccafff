"""The example of docs/how-to/share-between-stacks.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewright import cli

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "share-between-stacks.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page."""
    blocks = re.findall(r"`(stacks/[\w.]+)`[^`]*```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == [
        "stacks/base.yaml",
        "stacks/Pulumi.prod.yaml",
        "stacks/Pulumi.staging.yaml",
    ]
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: fleet\nstackConfigDir: stacks\n")
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_both_stacks_of_the_page_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-s", "prod", "-s", "staging"]) == 0
    assert cli.main(["plan", "--diff", "staging", "prod"]) == 0
    assert "spot" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_resolved_plan_begins_as_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--resolved", "-s", "prod"]) == 0
    shown = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    assert capsys.readouterr().out.startswith(shown)


def test_mistake_in_the_base_is_reported_as_on_the_page(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = project / "stacks" / "base.yaml"
    base.write_text(base.read_text().replace("machine_type", "machin_type"))
    assert cli.main(["check", "-s", "prod"]) == 2
    (message,) = re.findall(r"`(stacks/base.yaml:\d+:.*?)`", PAGE.read_text())
    assert message in capsys.readouterr().out
