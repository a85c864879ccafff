"""The directories that stand for a stack's NFS servers."""

from __future__ import annotations

from pathlib import Path

from slicewright.infra import plan
from slicewright.rehearsal.scenario import model_shares
from slicewright.rehearsal.scenario.environment import PROJECT, Environment
from tests.rehearsal.scenario.test_workload_needs import golden


def serving() -> plan.FleetPlan:
    return plan.read_file(PROJECT / "stacks" / "Pulumi.existing-a100-t4-serving.yaml")


def test_workloads_of_one_share_have_its_models_together() -> None:
    ((share, models),) = model_shares.wanted(serving()).items()
    assert share.server == "10.222.1.60"
    assert models == ("densenet_onnx",)


def test_a_volume_of_the_users_own_and_other_servers_are_left_alone() -> None:
    assert [share.path for share in model_shares.wanted(golden("triton"))] == [
        "/shares/share-1/server/docs/examples/model_repository"
    ]
    assert model_shares.wanted(golden("vllm")) == {}


def test_available_models_are_tritons_example(tmp_path: Path) -> None:
    text = (PROJECT / "stacks" / "Pulumi.existing-a100-t4-serving.yaml").read_text()
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(text.replace("[densenet_onnx]", "['*']"))
    ((_, models),) = model_shares.wanted(plan.read_file(file)).items()
    assert models == ("densenet_onnx",)


def test_share_is_filled_in_the_environment_and_labelled_simulated(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    model_shares.fill(Environment(tmp_path), serving(), said.append)
    share = tmp_path / "nfs/10.222.1.60/shares/models/server/docs/examples/model_repository"
    assert (share / "densenet_onnx/config.pbtxt").is_file()
    (line,) = said
    assert line.startswith("simulated: ")
    assert "without trained weights" in line
