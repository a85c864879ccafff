"""An empty account, from its first `slicewright doctor` to its first `up`, which succeeds: with the
delays that an ordinary account has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.aws import account as aws
from slicewright.rehearsal.clouds.gcp import account as google
from slicewright.rehearsal.clouds.gcp.gke import quotas
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, REGION, CloudEngine, cloud_engine
from tests.slicewright.doctor import credential_plugins


@dataclass(frozen=True)
class Story:
    fleet: Mapping[str, Any]
    empty: Callable[[Path], None]
    """Gives the account of an environment no quota for GPUs."""
    raised: Callable[[Path], None]
    missing: str
    """What doctor says of the first."""


EKS = Story(
    fleet={
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, "network": "private"},
        "node_pools": [{"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"count": 1}}],
    },
    empty=lambda environment: aws.write_account(environment, **aws.EMPTY),
    raised=lambda environment: aws.write_account(environment),
    missing="quota L-417A185B (Running On-Demand P instances) in us-west-2: 0 vCPU",
)
GKE = Story(
    fleet={
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1", "private_nodes": True},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-1g",
                "zones": ["us-central1-a"],
                "nodes": {"count": 1},
                "partition": {"mode": "native", "profile": "1g.5gb"},
            }
        ],
    },
    empty=lambda environment: google.write_account(environment, quotas.EMPTY),
    raised=lambda environment: google.write_account(environment, {}),
    missing="quota NVIDIA_A100_GPUS in us-central1: 0",
)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(
            GKE,
            marks=pytest.mark.long("on EKS: tests/slicewright/doctor/test_first_up_on_engine.py"),
            id="gke",
        ),
        pytest.param(EKS, id="eks"),
    ],
)
def test_an_empty_account_is_checked_and_repaired_and_comes_up_at_the_first_try(
    story: Story,
    tmp_path: Path,
    toolchain: Toolchain,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credential_plugins.put_on_path(tmp_path, monkeypatch)
    # The AWS account has the ordinary delays, which tests of the engine mostly leave out.
    aws.write_account(tmp_path)
    story.empty(tmp_path)
    with cloud_engine(tmp_path, toolchain) as engine:
        code, said = doctor(engine, story.fleet, capsys)
        assert code == NOT_VERIFIED, said
        assert story.missing in said
        story.raised(tmp_path)
        code, said = doctor(engine, story.fleet, capsys)
        assert code == VERIFIED, said
        first = engine.up(story.fleet)
        assert first.code == 0, first.output
        assert {node["metadata"]["labels"].get("slicewright.io/pool") for node in engine.nodes("c")}
        again = engine.up(story.fleet, "--expect-no-changes")
        assert again.code == 0, again.output
        gone = engine.destroy()
        assert gone.code == 0, gone.output
        assert engine.cloud.inventory() == {}


def doctor(
    engine: CloudEngine, fleet: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    file = engine.directory.parent / "Pulumi.first.yaml"
    config = {"gcp:project": PROJECT, "slicewright:fleet": fleet}
    file.write_text(json.dumps({"config": config}))  # JSON is YAML
    capsys.readouterr()
    code = cli.main(["doctor", str(file)])
    out, err = capsys.readouterr()
    return code, out + err
