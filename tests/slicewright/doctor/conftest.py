"""The simulated clouds over HTTP in this process, and `slicewright doctor` pointed at them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.doctor.checks.gpu_owners import DeviceOwners, OwnerAnswers
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.service import Cloud
from tests.slicewright.doctor import credential_plugins
from tests.slicewright.served_clouds import served_clouds


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every registry has every image: none is asked by a test of something else."""
    everywhere = frozenset({"amd64", "arm64"})
    monkeypatch.setattr("slicewright.doctor.preflight.registry.architectures", lambda _: everywhere)
    monkeypatch.setattr("slicewright.doctor.preflight.registry.is_open", lambda _: True)


@pytest.fixture(autouse=True)
def owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """No existing cluster has an owner of GPUs: the fake control planes cannot be asked."""
    nobody = OwnerAnswers(policies=(), owners=DeviceOwners(), daemonsets=())
    for module in ("aws.existing", "google.project"):
        monkeypatch.setattr(f"slicewright.doctor.ask.{module}.ask_inside", lambda _: nobody)


STACKS = Path(__file__).resolve().parents[3] / "stacks"


@dataclass(frozen=True)
class Doctor:
    environment: Path
    cloud: Cloud
    capsys: pytest.CaptureFixture[str]
    plane: socket.socket
    """Where control planes are: it accepts connections."""

    def __call__(self, stack: str, *changes: tuple[str, str]) -> tuple[int, str]:
        """The exit code and all that is written. changes: text of the stack file -> other text."""
        text = (STACKS / f"Pulumi.{stack}.yaml").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file = self.environment / f"Pulumi.{stack}.yaml"
        file.write_text(text)
        code = cli.main(["doctor", str(file)])
        out, err = self.capsys.readouterr()
        return code, out + err


@pytest.fixture
def doctor(
    clouds_over_http: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Doctor]:
    write_account(tmp_path, **PROMPT)
    credential_plugins.put_on_path(tmp_path, monkeypatch)
    plane = socket.create_server(("127.0.0.1", 0))
    planes = FakeControlPlanes(tmp_path, server=f"https://127.0.0.1:{plane.getsockname()[1]}")
    try:
        with served_clouds(tmp_path, planes, monkeypatch) as cloud:
            yield Doctor(tmp_path, cloud, capsys, plane)
    finally:
        plane.close()
