"""The report and its guard on what the real engine previews, on both clouds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import CloudEngine, cloud_engine


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("engine"), toolchain) as engine:
        yield engine


def pool(cloud: str, name: str, **more: Any) -> dict[str, Any]:
    own: Mapping[str, Mapping[str, Any]] = {
        "gke": {
            "machine_type": "a2-highgpu-1g",
            "zones": ["us-central1-c"],
            "partition": {"mode": "native", "profile": "1g.5gb"},
        },
        "eks": {
            "machine_type": "p4d.24xlarge",
            "partition": {"mode": "operator", "config": "all-1g.5gb"},
        },
    }
    return {"name": name, "nodes": {"count": 2}, **own[cloud], **more}


def fleet(cloud: str, *pools: dict[str, Any]) -> dict[str, Any]:
    clusters = {
        "gke": {"name": "main", "location": "us-central1"},
        "eks": {"name": "main", "region": "eu-west-1", "zones": ["eu-west-1a", "eu-west-1b"]},
    }
    return {"cloud": cloud, "cluster": clusters[cloud], "node_pools": list(pools)}


@pytest.mark.parametrize(
    "cloud",
    [
        "gke",
        pytest.param(
            "eks",
            marks=pytest.mark.long("on GKE: tests/slicewright/test_preview_report_on_engine.py"),
        ),
    ],
)
def test_a_change_that_ends_pods_needs_its_acknowledgement_once(
    cloud: str, engine: CloudEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack, preview = tmp_path / "Pulumi.dev.yaml", tmp_path / "preview.json"
    before = fleet(cloud, pool(cloud, "kept"), pool(cloud, "gone"))
    after = fleet(cloud, pool(cloud, "kept", capacity="spot"), pool(cloud, "new"))

    def reported(asked: Mapping[str, Any], *acknowledged: str) -> tuple[int, str]:
        config = {"slicewright:fleet": asked, "slicewright:acknowledged": list(acknowledged)}
        stack.write_text(json.dumps({"config": config}))  # JSON is YAML
        preview.write_text(engine.preview(asked, "--json").output)
        code = cli.main(["preview-report", "-s", str(stack), str(preview)])
        return code, capsys.readouterr().out

    code, out = reported(before)
    assert (code, "CAUTION" in out) == (cli.VERIFIED, False)
    assert engine.up(before).code == 0
    code, out = reported(before)
    assert (code, "no changes" in out) == (cli.VERIFIED, True)

    code, out = reported(after)
    assert code == cli.NOT_VERIFIED
    codes = re.findall(r'> +- "(.*)"', out)
    assert {one.partition(":")[0] for one in codes} == {f"{cloud}-kept", f"{cloud}-gone"}
    assert out.count("2 nodes and the pods on them") == 2

    assert reported(after, *codes[:1])[0] == cli.NOT_VERIFIED
    assert reported(after, *codes)[0] == cli.VERIFIED
    up = engine.up(after)
    assert up.code == 0, up.output
    code, out = reported(after, *codes)
    assert code == cli.VERIFIED
    assert all(one in out for one in codes), "the acknowledgements are no longer needed"
    code, _ = reported(before, *codes)
    assert code == cli.NOT_VERIFIED, "the way back is another change"
