"""`slicewright optimise`: its output, its file, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slicewright.cli import main
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra.planner import highs

DEMAND = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
    demand:
      machine_types: [p4d.24xlarge, p4de.24xlarge]
      classes:
        - { name: embed, replicas: 60, memory: 8Gi }
        - { name: chat, replicas: 9, memory: 38Gi }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(DEMAND)
    return file


def test_answer_has_pictures_classes_proof_and_pools(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimise", str(file), "--explain"]) == VERIFIED
    out = capsys.readouterr().out
    for part in (
        "[ embed ]",
        "chat",
        "no fleet within the limits is better",
        "whole GPUs",
        "time-slicing",
        "without max_pools: 4",
        "per hour of a replica",
        "chat, one more replica:",
        "node_pools:",
        "machine_type: p4de.24xlarge",
    ):
        assert part in out, part


def test_json_and_file_have_the_same_pools(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pools = tmp_path / "pools.yaml"
    assert main(["optimise", str(file), "--json", "-o", str(pools)]) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    assert answer["certificate"]["gap_percent"] == 0
    assert answer["usd_per_hour"] == answer["certificate"]["value"]
    for pool in answer["node_pools"]:
        assert f"name: {pool['name']}" in pools.read_text()
    shares = sum(part["usd_per_hour"] for part in answer["classes"])
    assert 0 < shares <= answer["usd_per_hour"] + 0.001
    assert answer["usd_per_month"] == answer["usd_per_hour"] * 730
    embed = next(part for part in answer["classes"] if part["name"] == "embed")
    assert embed["usd_per_replica_hour"] == pytest.approx(embed["usd_per_hour"] / 60, abs=1e-4)


def test_a_rate_has_the_cost_of_a_million_requests(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand = DEMAND.split("        - {")[0]
    bert = "{ name: bert, requests_per_second: 500, throughput: { A100-80: { whole: 62.5 } } }"
    file.write_text(f"{demand}        - {bert}\n")
    assert main(["optimise", str(file), "--json"]) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    (part,) = answer["classes"]
    # 8 GPUs of one node serve exactly the rate: 1.8 million requests per hour.
    assert part["usd_per_million_requests"] == pytest.approx(answer["usd_per_hour"] / 1.8, abs=1e-4)
    assert main(["optimise", str(file)]) == VERIFIED
    assert "per million requests" in capsys.readouterr().out.replace("\n", " ")


def test_each_price_has_its_source(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pools = tmp_path / "pools.yaml"
    assert main(["optimise", str(file), "--json", "-o", str(pools)]) == VERIFIED
    sources = json.loads(capsys.readouterr().out)["price_sources"]
    assert re.fullmatch(r"list price of 20\d\d-\d\d-\d\d in us-east-1", sources["p4de.24xlarge"])
    assert f"# price of p4de.24xlarge: {sources['p4de.24xlarge']}\n" in pools.read_text()
    own = "      usd_per_hour: { p4de.24xlarge: 9.5 }\n      classes:"
    file.write_text(DEMAND.replace("      classes:", own))
    assert main(["optimise", str(file)]) == VERIFIED
    assert "Price of p4de.24xlarge: demand.usd_per_hour\n" in capsys.readouterr().out


def test_the_same_input_gives_the_same_bytes_in_every_process(file: Path, tmp_path: Path) -> None:
    """Python's sets of text have another order in each process."""
    written = []
    for seed in ("1", "2"):
        pools = tmp_path / f"{seed}.yaml"
        command = [sys.executable, "-m", "slicewright.cli", "optimise", str(file)]
        output = subprocess.run(
            [*command, "--explain", "-o", str(pools)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        written.append((output, pools.read_bytes()))
    assert written[0] == written[1]


def test_other_rules_are_part_of_the_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimise", str(file), "--json", "--explain"]) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    rules = answer["other_rules"]
    assert {*rules} == {"whole GPUs", "time-slicing", "uniform layouts", "without max_pools: 4"}
    for fleet in rules.values():
        assert fleet["usd_per_month"] > 0
    assert rules["whole GPUs"]["usd_per_hour"] > answer["usd_per_hour"]
    assert {*answer["one_more"]} == {"embed", "chat"}


def test_slices_in_no_partition_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demand = DEMAND.split("        - {")[0].replace("p4d.24xlarge, ", "")
    file.write_text(f"{demand}        - {{ name: pair, replicas: 16, profiles: [3g.40gb] }}\n")
    assert main(["optimise", str(file)]) == VERIFIED
    text = "In no partition: 8 compute slices and 0 memory slots of 8 x A100-80 with 2 x 3g.40gb"
    assert text in capsys.readouterr().out
    assert main(["optimise", str(file), "--json"]) == VERIFIED
    (waste,) = json.loads(capsys.readouterr().out)["outside_partitions"]
    assert (waste["compute_slices"], waste["memory_slots"]) == (8, 0)


def test_json_of_a_process_of_its_own_has_nothing_beside_it(file: Path) -> None:
    """The solver is a C++ library with an output of its own."""
    command = [sys.executable, "-m", "slicewright.cli", "optimise", str(file), "--json"]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert json.loads(output)["certificate"]["gap_percent"] == 0


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("max_nodes: 1", "max_nodes: 1"),
        ("max_gpus: { A100-80: 4, A100-40: 0 }", "max_gpus.A100-80: 4"),
    ],
)
def test_impossible_demand_names_the_limit_and_the_class(
    file: Path, capsys: pytest.CaptureFixture[str], limit: str, text: str
) -> None:
    file.write_text(DEMAND.replace("      classes:", f"      {limit}\n      classes:"))
    assert main(["optimise", str(file)]) == NOT_VERIFIED
    assert text in capsys.readouterr().err


def test_a_missing_solver_is_reported_with_its_installation(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(highs.importlib.util, "find_spec", lambda _: None)
    assert main(["optimise", str(file)]) == CANNOT_RUN
    assert "slicewright[planner]" in capsys.readouterr().err


def test_output_file_that_cannot_be_written_is_one_message(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["optimise", str(file), "-o", str(tmp_path)]) == CANNOT_RUN
    assert str(tmp_path) in capsys.readouterr().err


def test_stack_without_demand_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimise", "-s", "eks-a100"]) == BAD_INPUT
    assert "has no key demand" in capsys.readouterr().out


CURRENT = """
    node_pools:
      - name: chat
        machine_type: p4de.24xlarge
        nodes: { count: 1 }
        partition: { mode: operator, config: all-balanced }
        labels: { team: a }
      - name: more-chat
        machine_type: p4de.24xlarge
        nodes: { min: 0, max: 1 }
        partition: { mode: operator, layout: { 3g.40gb: 1, 2g.20gb: 1, 1g.10gb: 2 } }
      - name: embed
        machine_type: p4d.24xlarge
        nodes: { count: 3 }
        partition: { mode: operator, layout: { 2g.10gb: 3 } }
      - { name: idle, machine_type: g6.xlarge, nodes: { count: 1 } }
    demand:"""


def test_a_new_plan_keeps_pools_that_serve_as_well(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pools = tmp_path / "pools.yaml"
    text = DEMAND.replace("\n    demand:", CURRENT).replace("replicas: 60", "replicas: 30")
    file.write_text(text.replace("[p4d.24xlarge, p4de.24xlarge]", "[p4de.24xlarge]"))
    assert main(["optimise", str(file), "--current", "--json", "-o", str(pools)]) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    assert {(entry["pool"], entry["change"]) for entry in answer["changes"]} == {
        ("chat", "stays"),
        ("more-chat", "stays"),
        ("embed", "goes"),
        ("idle", "goes"),
    }
    assert answer["usd_per_hour_today"] > answer["usd_per_hour"]
    before = yaml.safe_load(text)["config"]["slicewright:fleet"]["node_pools"]
    assert yaml.safe_load(pools.read_text())["node_pools"] == before[:2]
    assert main(["optimise", str(file), "--current"]) == VERIFIED
    out = capsys.readouterr().out
    assert "embed goes: 3 nodes drained and deleted" in out
    assert "Today: USD" in out


def test_a_pool_of_mig_manager_is_partitioned_again(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name and its other keys stay; its nodes need not be ordered again."""
    file.write_text(DEMAND.replace("\n    demand:", CURRENT))
    assert main(["optimise", str(file), "--current"]) == VERIFIED
    out = capsys.readouterr().out
    assert "chat changes its layout to 4 x 1g.10gb, 1 x 3g.40gb" in out
    assert "team: a" in out


def test_current_needs_pools_that_check_accepts(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimise", str(file), "--current"]) == BAD_INPUT
    assert "node_pools" in capsys.readouterr().out


def test_manifests_are_demand_without_classes_in_the_file(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file.write_text(DEMAND.split("    demand:")[0])
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    command = ["optimise", str(file), "--json", "--from-manifests", str(manifests)]
    assert main(command) == BAD_INPUT
    assert "no manifest requests" in capsys.readouterr().err
    pod = {
        "kind": "Pod",
        "metadata": {"name": "chat"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-3g.40gb": 2}}}]},
    }
    (manifests / "chat.json").write_text(json.dumps(pod))
    assert main(command) == VERIFIED
    (served,) = json.loads(capsys.readouterr().out)["classes"]
    assert served["name"] == "chat"
    assert [(part["profile"], part["replicas"]) for part in served["devices"]] == [("3g.40gb", 2)]


def test_pools_that_are_alike_share_the_nodes_of_the_plan(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both keep the nodes that they have; only the first one grows."""
    pools = """
    node_pools:
      - name: first
        machine_type: p4de.24xlarge
        nodes: { count: 1 }
        partition: { mode: operator, layout: { 3g.40gb: 2 } }
      - name: second
        machine_type: p4de.24xlarge
        nodes: { count: 1 }
        partition: { mode: operator, layout: { 3g.40gb: 2 } }
    demand:
      machine_types: [p4de.24xlarge]
      classes:
        - { name: chat, replicas: 48, profiles: [3g.40gb] }
"""
    file.write_text(DEMAND.split("\n    demand:")[0] + pools)
    assert main(["optimise", str(file), "--current", "--json"]) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    assert [(entry["pool"], entry["nodes_after"]) for entry in answer["changes"]] == [
        ("first", 2),
        ("second", 1),
    ]
    assert [pool["nodes"] for pool in answer["node_pools"]] == [{"count": 2}, {"count": 1}]
