"""A PULUMI_HOME without the engine's own log, against the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slicewright.rehearsal.plugins.engine.home import make_home


def _log_files(project: Any) -> list[Path]:
    return list(Path(project.variables["PULUMI_HOME"]).glob("logs/*"))


def test_the_engine_runs_and_keeps_no_log_of_its_own(project: Any) -> None:
    project.write("import pulumi\npulumi.export('made', 1)")
    code, output = project.up()
    assert code == 0, output
    assert "automatic logging" not in output
    assert not _log_files(project)
    # Otherwise the engine keeps none anyway, and there is nothing to do.
    Path(project.variables["PULUMI_HOME"], "logs").unlink()
    assert project.up()[0] == 0
    assert _log_files(project)


def test_a_home_that_has_logs_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "earlier.log").touch()
    make_home(tmp_path)
    assert (tmp_path / "logs" / "earlier.log").exists()
