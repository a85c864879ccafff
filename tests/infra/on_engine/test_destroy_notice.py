"""What plain `pulumi destroy` says, by the real engine."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import cloud_engine

_PROGRAM = """\
import pulumi
from slicewright.infra.components.destroy_notice import DestroyNotice

DestroyNotice(pulumi.get_stack())
"""


def test_pulumi_destroy_names_the_resources_that_it_does_not_see(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    with cloud_engine(tmp_path, toolchain) as engine:
        (engine.directory / "__main__.py").write_text(_PROGRAM)
        assert engine.run("up", "--yes", "--skip-preview").code == 0
        again = engine.run("up", "--yes", "--skip-preview", "--expect-no-changes")
        assert again.code == 0, again.output
        destroyed = engine.destroy()
    assert destroyed.code == 0, destroyed.output
    assert "load balancers, disks and logs of the cluster are not seen by" in destroyed.output
    assert "slicewright destroy -s dev --dry-run" in destroyed.output
