"""`pulumi destroy` is followed: leftovers are deleted in the silence between its lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slicewright.teardown.engine import Pulumi

PULUMI = """\
#!/bin/sh
echo 'deleting subnet a'
for second in 1 2 3 4 5 6 7 8 9 10; do
    [ -e swept ] && exit 0
    printf {noise}
    sleep 0.4
done
exit 255
"""
"""A subnet that goes as soon as its leftover is gone, and never without."""


@pytest.mark.parametrize("noise", ["''", "."], ids=["silence", "dots"])
def test_leftovers_are_deleted_while_pulumi_waits(
    noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulumi adds a dot to its line of progress once a second, as long as it waits."""
    program = tmp_path / "pulumi"
    program.write_text(PULUMI.format(noise=noise))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    ended = Pulumi("dev").destroy(
        without_cluster=False, show=lines.append, meanwhile=(tmp_path / "swept").touch
    )
    assert ended.code == 0, lines
    assert lines[0] == "deleting subnet a"
