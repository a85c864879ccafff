"""Fixtures for tests of the program: stack files, and a recorder in place of Pulumi's engine."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pytest
import yaml

from slicewright.infra import delivery, manifests, plan, program, stack_file
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.recorder import VERIFIED, Made, Recorder, deploy_cloud, recorded, thread_loop

if TYPE_CHECKING:
    from tests.infra.cloud_engine import CloudEngine

ROOT = Path(__file__).resolve().parents[2]


# A recording is read, never changed: one per stack serves all tests.
_RECORDED: dict[tuple[Any, str, bool, str], list[Made]] = {}


@pytest.fixture(autouse=True)
def _no_ambient_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    # The Kubernetes provider takes these as inputs.
    for name in list(os.environ):
        if name == "KUBECONFIG" or name.startswith("PULUMI_K8S_"):
            monkeypatch.delenv(name)


@pytest.fixture
def stack() -> Callable[[str], dict[str, Any]]:
    """The config of a committed stack file."""

    def read(name: str) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(
            (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text()
        )["config"]
        return config

    return read


@pytest.fixture
def engine(tmp_path: Path, toolchain: Toolchain) -> Iterator[CloudEngine]:
    """An empty stack of one test, over empty simulated clouds."""
    # It imports the clouds' SDKs, which most tests of this directory do without.
    from tests.infra.cloud_engine import cloud_engine

    with cloud_engine(tmp_path, toolchain) as engine:
        yield engine


@pytest.fixture
def zipapps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small zipapps: what is in them is the delivery's own test."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("__main__.py", "")
    for name in ("node_agent", "fleet_controller"):
        app = delivery.Zipapp(
            name=f"{name}.pyz", content=archive.getvalue(), sources_hash="0123456789abcdef"
        )
        monkeypatch.setattr(delivery, name, lambda app=app: app)


def _recording(deploy: Callable[[plan.FleetPlan], None]) -> Callable[..., list[Made]]:
    def run(
        name: str,
        *,
        fleet: str = "",
        preview: bool = False,
        status: Mapping[str, Any] | None = VERIFIED,
        node_groups: Mapping[str, Mapping[str, int]] | None = None,
    ) -> list[Made]:
        key = (deploy, name + fleet, preview, json.dumps([status, node_groups]))
        if key not in _RECORDED:
            raw = yaml.safe_load(fleet)
            planned = (
                plan.read(json.dumps(raw), stack_file.Source("test", raw))
                if fleet
                else plan.read_file(ROOT / "stacks" / f"Pulumi.{name}.yaml")
            )
            _RECORDED[key] = recorded(
                planned,
                name,
                preview=preview,
                status=status,
                node_groups=node_groups,
                deploy=deploy,
            )
        return _RECORDED[key]

    return run


@pytest.fixture
def record(zipapps: None) -> Callable[..., list[Made]]:
    """Deploys a committed stack, or a fleet in YAML, to a recorder and gives what was asked for, in
    any order.
    """
    return _recording(program.deploy)


@pytest.fixture
def record_cloud() -> Callable[..., list[Made]]:
    """As `record`, but only the cluster and its node pools, without what is made in the cluster."""
    return _recording(deploy_cloud)


@pytest.fixture
def mocked() -> Iterator[Recorder]:
    """The recorder as the engine of stack `x`; nothing is deployed yet."""
    recorder = Recorder()
    with thread_loop():
        pulumi.runtime.set_mocks(recorder, project="slicewright", stack="x")
        yield recorder


def without_columns(message: str) -> str:
    """`file.yaml:LINE:` for `file.yaml:LINE:COLUMN:`."""
    return re.sub(r"(\.yaml:\d+):\d+:", r"\1:", message)


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str], str]:
    """What a stack file with this fleet, as YAML, is refused with; lines without columns."""

    def refuse(fleet: str) -> str:
        file = tmp_path / "Pulumi.broken.yaml"
        indented = "".join(f"    {line}\n" for line in fleet.splitlines())
        file.write_text(f"config:\n  slicewright:fleet:\n{indented}")
        with pytest.raises(stack_file.SpecError) as refused:
            plan.read_file(file, name="stacks/Pulumi.broken.yaml")
        return without_columns(str(refused.value))

    return refuse


@pytest.fixture
def as_json() -> Callable[[Any], str]:
    return lambda data: json.dumps(data, sort_keys=True)


@pytest.fixture
def check_config(one_tool: Callable[[str], Path], tmp_path: Path) -> Callable[[Any], None]:
    """NVIDIA's own parser accepts every layout of a mig-parted config."""
    mig_parted = one_tool("mig_parted")

    def check(config: Any) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(manifests.as_yaml(config))
        for name in config["mig-configs"]:
            done = subprocess.run(
                [mig_parted, "assert", "--valid-config", "-f", file, "-c", name],
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    return check
