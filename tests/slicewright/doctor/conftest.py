"""The simulated clouds over HTTP in this process, and `slicewright doctor` pointed at them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.clouds.aws.account import PROMPT, write_account
from rehearsal.clouds.aws.protocols.service import AwsProtocols
from rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from rehearsal.clouds.endpoint import Endpoint
from rehearsal.clouds.gcp.rest.protocol import GoogleRest
from rehearsal.clouds.service import Cloud
from rehearsal.scenario import cloud_variables
from slicewright import cli

STACKS = Path(__file__).resolve().parents[3] / "stacks"


@dataclass(frozen=True)
class Doctor:
    environment: Path
    cloud: Cloud
    capsys: pytest.CaptureFixture[str]
    plane: socket.socket
    """Where control planes are: it takes connections."""

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
    plane = socket.create_server(("127.0.0.1", 0))
    planes = FakeControlPlanes(tmp_path, server=f"https://127.0.0.1:{plane.getsockname()[1]}")
    cloud = Cloud(tmp_path, planes, ready_timeout_s=0.2)
    endpoint = Endpoint(tmp_path)
    endpoint.protocols = (
        AwsProtocols(cloud.call, endpoint.credentials),
        GoogleRest(cloud.call, token=endpoint.credentials.google_access_token),
    )
    for name in cloud_variables.USERS_OWN:
        monkeypatch.delenv(name, raising=False)
    for name, value in cloud_variables.of(endpoint.access, tmp_path).items():
        monkeypatch.setenv(name, value)
    serving = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield Doctor(tmp_path, cloud, capsys, plane)
    finally:
        plane.close()
        endpoint.shutdown()
        serving.join()
        endpoint.server_close()
        assert cloud.tasks.wait(120)
