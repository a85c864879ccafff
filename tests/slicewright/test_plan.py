"""`slicewright plan` and `check`: text, JSON and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command in the project, as called from a script: exit code, stdout, stderr."""
    monkeypatch.chdir(ROOT)

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            code = cli.main(list(arguments))
        except SystemExit as e:
            code = int(e.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_s0_is_drawn_with_eight_memory_columns_and_seven_of_compute(run: Any) -> None:
    code, out, err = run("plan", "-s", "gke-h100")
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("slot"))
    assert lines[at].split() == ["slot", *map(str, range(8))]
    memory, compute = lines[at + 1], lines[at + 2]
    assert re.fullmatch(r"    memory  \[ +3g\.40gb +\]\[ +3g\.40gb +\]", memory)
    assert re.fullmatch(r"    compute \[ +3g\.40gb +\] +· +\[ +3g\.40gb +\]", compute)
    # Both rows have the same columns: the second instance starts under itself, and compute ends one
    # column earlier.
    column = (len(memory) - 12) // 8
    assert memory.index("][") + 1 == compute.rindex("[")
    assert len(memory) - len(compute) == column
    assert "\x1b" not in out


def test_s4_shows_two_pools_that_share_each_in_its_way(run: Any) -> None:
    _, out, _ = run("plan", "-s", "existing-a100-t4")
    for part in (
        "existing cluster gpu-sharing (context gpu-sharing)",
        "GPU 0 of each node: A100-40, 40960 MiB, 4 partitions",
        # Warnings and `status` use the name, which nobody has written.
        "layout's name   all-balanced (label nvidia.com/mig.config)",
        "each mig-1g.5gb is shared by 4 (time-slicing)",
        "a node offers   nvidia.com/mig-1g.5gb 8, nvidia.com/mig-2g.10gb 3, "
        "nvidia.com/mig-3g.20gb 4",
        "a node offers   nvidia.com/gpu 14",
    ):
        assert part in out


@pytest.mark.parametrize(
    "stack", ["gke-h100", "eks-a100", "hosts-a100", "fractional", "existing-a100-t4"]
)
def test_every_stack_is_shown_as_text_and_as_json(run: Any, stack: str) -> None:
    code, out, _ = run("plan", "-s", stack)
    assert code == 0
    assert out
    code, out, _ = run("plan", "-s", stack, "--json")
    assert code == 0
    written = json.loads(out)
    assert written["version"] == 1
    assert {
        "cloud",
        "cluster",
        "pools",
        "hosts",
        "workloads",
        "files",
        "totals",
        "cannot_be_built_yet",
    } <= set(written)


def test_the_json_keys_are_stable(run: Any) -> None:
    written = json.loads(run("plan", "-s", "eks-a100", "--json")[1])
    (pool,) = written["pools"]
    assert set(pool) == {
        "name",
        "machine_type",
        "zones",
        "capacity",
        "nodes",
        "gpu",
        "gpus",
        "devices",
        "sharing",
        "allocatable",
        "labels",
        "taints",
        "mig_config",
        "layout_hash",
        "desired",
        "rollout",
        "usd_per_node_hour",
        "usd_per_node_hour_elsewhere",
        "usd_per_partition_month",
        "no_price",
        "driver",
        "verification",
        "pod",
    }
    assert pool["verification"] == {
        "compute": True,
        "why_listed_only": "",
        "pod": [],
        "why_no_pod": "verification.pod is false",
    }
    assert pool["driver"]["minimum"] == "450.80.02"
    assert pool["allocatable"] == {"nvidia.com/mig-1g.5gb": 56}
    assert pool["nodes"] == {"min": 1, "max": 1, "autoscaled": False}
    assert [p["start"] for p in pool["gpus"][7]["placements"]] == [0, 1, 2, 3, 4, 5, 6]
    assert written["totals"]["allocatable"] == {"nvidia.com/mig-1g.5gb": {"min": 56, "max": 56}}
    assert {"all-disabled", pool["mig_config"]} < set(written["files"]["mig_parted"]["mig-configs"])


def test_the_lines_by_which_a_pod_asks_for_a_partition_are_printed(run: Any) -> None:
    _, out, _ = run("plan", "-s", "eks-a100")
    assert (
        """\
  a pod requests one with this in its spec:
    nodeSelector: {slicewright.io/pool: demo-gpu-workers}
    tolerations:
    - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
    containers:
    - resources:
        limits: {nvidia.com/mig-1g.5gb: 1}
"""
        in out
    )


def test_the_json_has_the_lines_of_a_pod(run: Any) -> None:
    (pool,) = json.loads(run("plan", "-s", "eks-a100", "--json")[1])["pools"]
    assert pool["pod"] == {
        "nodeSelector": {"slicewright.io/pool": "demo-gpu-workers"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "limits": [{"nvidia.com/mig-1g.5gb": 1}],
    }


def test_every_resource_that_a_pod_may_request_is_listed(run: Any) -> None:
    a100, t4 = json.loads(run("plan", "-s", "existing-a100-t4", "--json")[1])["pools"]
    assert a100["pod"]["limits"] == [
        {"nvidia.com/mig-1g.5gb": 1},
        {"nvidia.com/mig-2g.10gb": 1},
        {"nvidia.com/mig-3g.20gb": 1},
    ]
    assert t4["pod"]["limits"] == [{"nvidia.com/gpu": 1}]
    out = run("plan", "-s", "existing-a100-t4")[1]
    assert "    # or limits: {nvidia.com/mig-2g.10gb: 1}\n" in out


def test_a_pod_on_fractional_gpus_requests_what_its_workload_states(run: Any) -> None:
    written = json.loads(run("plan", "-s", "fractional", "--json")[1])
    (pool,), (workload,) = written["pools"], written["workloads"]
    assert pool["pod"]["limits"] == [workload["requests"]]


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
def test_an_unknown_price_is_reported_and_never_zero(run: Any, stack: str) -> None:
    written = json.loads(run("plan", "-s", stack, "--json")[1])
    cost = written["totals"]["usd_per_hour"]
    pools = {pool["name"]: pool for pool in written["pools"]} | {"system": written["system_pool"]}
    out = run("plan", "-s", stack)[1]
    told = out[out.index("cost:") :]
    for name, pool in pools.items():
        price = pool["usd_per_node_hour"]
        assert (price is None) == (name in cost["unknown"])
        assert price is None or price["usd_per_hour"] > 0
        assert (price is None) == bool(pool["no_price"])
        if price is None:
            assert cost["why_unknown"][name] == pool["no_price"]
            assert (
                f"not included: {'the system pool' if name == 'system' else f'pool {name}'}, "
                f"{pool['no_price']}" in told
            )
    assert "control plane" in told.splitlines()[0]
    assert "control plane" in cost["not_in_it"]


@pytest.mark.parametrize(
    ("stack", "unknown"),
    [
        ("hosts-a100", ["rnd3"]),
        ("fractional", ["shared"]),
        ("existing-a100-t4", ["a100-40gb", "tesla-t4"]),
    ],
)
def test_existing_nodes_and_hosts_are_not_free(run: Any, stack: str, unknown: list[str]) -> None:
    cost = json.loads(run("plan", "-s", stack, "--json")[1])["totals"]["usd_per_hour"]
    assert (cost["min"], cost["max"], cost["unknown"]) == (None, None, unknown)
    assert set(cost["why_unknown"].values()) == {"not created by this stack"}


def test_sum_without_a_known_price_is_unknown_and_not_zero(run: Any, tmp_path: Path) -> None:
    dear = tmp_path / "dear.yaml"
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    dear.write_text(text.replace("us-central1", "me-central1"))
    cost = json.loads(run("plan", str(dear), "--json")[1])["totals"]["usd_per_hour"]
    assert (cost["min"], cost["max"], cost["unknown"]) == (
        None,
        None,
        ["h100-partition-3g", "system"],
    )
    assert "cost: unknown" in run("plan", str(dear))[1]


def test_a_spot_sample_is_not_called_a_list_price(run: Any, tmp_path: Path) -> None:
    both = tmp_path / "both.yaml"
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    both.write_text(
        f"{text}      - {{ name: bought, machine_type: a2-highgpu-1g, zones: "
        f"[us-central1-a], nodes: {{ count: 1 }} }}\n"
    )
    for stack, of in (
        (
            "gke-h100",
            "at list prices for the system pool, at a spot sample for pool h100-partition-3g;",
        ),
        (
            str(both),
            "at list prices for pool bought, the system pool, "
            "at a spot sample for pool h100-partition-3g;",
        ),
    ):
        sampled = json.loads(run("plan", stack, "--json")[1])["totals"]["usd_per_hour"]
        assert (sampled["spot_samples"], sampled["unknown"]) == (["h100-partition-3g"], [])
        assert f" USD/h {of}" in run("plan", stack)[1]


def test_changes_are_shown_per_pool_with_the_reason(run: Any, tmp_path: Path) -> None:
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    other = tmp_path / "Pulumi.other.yaml"
    other.write_text(text.replace("profile: 3g.40gb", "profile: 7g.80gb"))
    code, out, _ = run("plan", "--diff", "gke-h100", str(other))
    assert code == 0
    assert "pool h100-partition-3g: replace" in out
    assert "partition_size 3g.40gb -> 7g.80gb" in out
    assert "[source: google-beta: ForceNew]" in out
    code, out, _ = run("plan", "--diff", "gke-h100", str(other), "--json")
    (pool,) = json.loads(out)["pools"]
    assert (pool["kind"], pool["effect"]) == ("changed", "replace")
    assert (
        run("plan", "--diff", "gke-h100", "gke-h100")[1].strip()
        == "pool h100-partition-3g: unchanged"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("check", "stacks/Pulumi.gke-h100.yaml", "stacks/Pulumi.existing-a100-t4.yaml"), 0, "ok"),
        (("check", "nowhere.yaml"), 2, "No such file"),
        (("check",), 2, "FILE"),
        (("plan",), 2, "name at least one stack"),
        (
            ("plan", "-s", "gke-h100", "--diff", "gke-h100", "eks-a100"),
            2,
            "--diff takes exactly two stacks",
        ),
        (("plan", "-s", "nowhere"), 2, "stacks/Pulumi.nowhere.yaml: cannot be read"),
        (("plan", "--diff", "gke-h100", "nowhere"), 2, "cannot be read"),
        (("plan", "--diff", "gke-h100"), 2, "expected 2 arguments"),
        (("plan", "-s", "gke-h100", "--hosts-dir", "nowhere"), 2, "gke-h100 has no hosts"),
        (("plan", "-s", "fractional", "--hosts-dir", "nowhere"), 2, "fractional has no hosts"),
        (("plan", "hosts-a100", "gke-h100", "--hosts-dir", "nowhere"), 2, "the hosts of one plan"),
        (
            ("plan", "--diff", "hosts-a100", "hosts-a100", "--hosts-dir", "nowhere"),
            2,
            "the hosts of one plan",
        ),
        (("plan", "hosts-a100", "--hosts-dir", "/proc/nowhere"), 3, "/proc/nowhere: No such file"),
        (("plan", "stacks/Pulumi.gke-h100.yaml"), 0, "nvidia.com/gpu 16"),
        (("plan", "gke-h100"), 0, "nvidia.com/gpu 16"),
        (("plan", "s" * 300), 2, "File name too long"),
        (("nonsense",), 2, "invalid choice"),
        (("--help",), 0, "plan"),
    ],
)
def test_exit_codes(run: Any, arguments: tuple[str, ...], code: int, said: str) -> None:
    got, out, err = run(*arguments)
    assert (got, said in out + err) == (code, True), out + err
    assert "Traceback" not in out + err


def test_check_has_the_notes_that_plan_has(run: Any, tmp_path: Path) -> None:
    """A zone that the catalog does not list for the machine is no reason to refuse: its list may be
    old.
    """
    moved = tmp_path / "moved.yaml"
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    moved.write_text(text.replace("zones: [us-central1-c]", "zones: [us-central1-f]"))
    code, out, _ = run("check", str(moved), "stacks/Pulumi.existing-a100-t4.yaml")
    assert code == 0
    assert f"{moved}: ok, 1 pool\nnote: " in out
    assert (
        "note: pool h100-partition-3g: the catalog does not list a3-highgpu-8g in us-central1-f"
        in out
    )
    for file in (str(moved), "existing-a100-t4"):
        told = [line for line in run("plan", file)[1].splitlines() if line.startswith("note: ")]
        assert told
        assert set(told) <= set(out.splitlines())


def test_problems_go_to_stderr_so_that_json_stays_json(run: Any) -> None:
    code, out, err = run("plan", "-s", "nowhere", "--json")
    assert (code, out) == (2, "")
    assert "cannot be read" in err


def test_the_files_of_hosts_are_written_and_named(run: Any, tmp_path: Path) -> None:
    to = tmp_path / "new" / "hosts"
    code, out, err = run("plan", "-s", "hosts-a100", "--hosts-dir", str(to))
    assert (code, err) == (0, "")
    assert f"written: {to}/rnd3.layout, {to}/inventory.yaml" in out.replace("\n", " ")
    files = {file.name: file.read_text() for file in to.iterdir()}
    assert set(files) == {"rnd3.layout", "inventory.yaml"}
    code, out, _ = run("plan", "-s", "hosts-a100", "--hosts-dir", str(to), "--json")
    assert json.loads(out)["files"] == {"hosts": files}
    assert {file.name: file.read_text() for file in to.iterdir()} == files


@pytest.fixture
def no_reader() -> Iterator[int]:
    """A pipe that nobody reads any more, as after `| head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def called(arguments: list[str], stdout: int | None, *, how: str = "") -> tuple[int, str]:
    """Exit code and stderr of the command in a process of its own. how: what the shell does with
    its stdout.
    """
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {how}', sys.executable, "-m", "slicewright.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # Where each write goes out at once, argparse swallows the error of its own.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


# An answer, a refusal, and what argparse writes by itself.
ANSWERS = [["plan", "-s", "eks-a100"], ["check", "nowhere.yaml"], ["--help"]]


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_closed_pipe_gives_no_traceback(arguments: list[str], no_reader: int) -> None:
    assert called(arguments, no_reader) == (cli.CLOSED_PIPE, "")


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_full_disk_is_one_line_and_not_the_exit_code_of_a_mismatch(
    arguments: list[str],
) -> None:
    full = "slicewright: the output cannot be written: No space left on device\n"
    assert called(arguments, None, how=">/dev/full") == (cli.CANNOT_RUN, full)


def test_a_closed_stdout_is_one_line() -> None:
    code, err = called(["plan", "-s", "eks-a100"], None, how=">&-")
    assert code == cli.CANNOT_RUN
    assert err.startswith("slicewright: stdout is closed")
    assert err.count("\n") == 1


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    documented = {int(n) for n in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    assert documented >= {
        cli.VERIFIED,
        cli.NOT_VERIFIED,
        cli.BAD_INPUT,
        cli.CANNOT_RUN,
        cli.INTERRUPTED,
        cli.CLOSED_PIPE,
        cli.DEGRADED,
    }


def test_a_workload_is_shown_with_where_its_replicas_land(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.vllm.yaml"
    written = (ROOT / "tests/infra/golden/vllm.yaml").read_text()
    file.write_text(written.replace("replicas: 16", "replicas: 17"))
    code, out, _ = run("plan", str(file))
    assert code == 0
    for part in (
        "workload ai/llm-deployment: 17 replicas of vllm on pool h100-partition-3g",
        "each requests   1 nvidia.com/gpu (3g.40gb); the pool offers up to 16, 1 Pending",
        "each needs      26182 MiB of 36403 MiB usable: weights 23366, context 1280",
        "pods    [      a       ][      a       ]\n            a = llm-deployment",
        "lands on        a in the drawing of its pool: up to 16 replicas on a node",
        "workload default/large: 2 replicas of vllm on pool whole",
        "whole, for large",
        "lands on        up to 1 replica on a node",
        "context unknown",
    ):
        assert part in out
    code, out, _ = run("plan", str(file), "--json")
    assert code == 0
    first, second = json.loads(out)["deployments"]
    assert (first["run"], first["pending"], first["awaited"]) == (16, 1, False)
    assert first["memory_mib"] == {
        "needed": 26182,
        "weights": 23366,
        "context": 1280,
        "overhead": 1536,
        "usable": 36403,
    }
    assert (second["per_pod"], second["profiles"], second["awaited"]) == (2, [], True)


def test_only_partitions_that_a_workload_asks_for_are_marked_and_stated_memory_is_shown(
    run: Any,
) -> None:
    code, out, _ = run("plan", "-s", "existing-a100-t4-serving")
    assert code == 0
    assert "pods    [  a   ][  a   ]   ·       ·       ·       ·       ·       ·" in out
    assert "a = tritonserver-timeslicing-mig" in out
    assert "T4, 15360 MiB, whole, for tritonserver-teslat4" in out
    assert "each needs      1024 MiB of 4864 MiB usable, as stated" in out
    assert "lands on        a in the drawing of its pool: up to 8 replicas on a node" in out
    assert "lands on        up to 4 replicas on a node" in out


def test_resolved_plan_is_a_stack_file_with_the_files_of_each_part(
    run: Any, tmp_path: Path
) -> None:
    stack = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    (tmp_path / "base.yaml").write_text(stack)
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(
        "config:\n  slicewright:fleet:\n    extends: base.yaml\n    pod_guard: {}\n"
        "    node_pools:\n    - {name: h100-partition-3g, nodes: {count: 2}}\n"
        "    - {name: more, machine_type: a3-highgpu-8g, zones: [us-central1-c],"
        " nodes: {count: 1}}\n"
    )
    code, out, err = run("plan", "--resolved", str(file))
    assert (code, err) == (0, "")
    base = tmp_path / "base.yaml"
    assert f"    # {base}\n    cloud: gke\n" in out
    assert f"    # {file}\n    pod_guard: {{}}\n" in out
    assert f"      # {base}, {file}\n      - name: h100-partition-3g\n" in out
    assert f"      # {file}\n      - name: more\n" in out
    resolved = tmp_path / "Pulumi.resolved.yaml"
    resolved.write_text(out)
    assert run("check", str(resolved))[0] == 0
    assert run("plan", "--json", str(resolved))[1] == run("plan", "--json", str(file))[1]


def test_resolved_plan_of_a_file_without_bases_has_no_comments(run: Any) -> None:
    code, out, _ = run("plan", "--resolved", "-s", "eks-a100")
    assert code == 0
    assert "#" not in out


def test_resolved_plan_of_a_wrong_file_is_its_problems(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config:\n  slicewright:fleet:\n    cloud: gke\n")
    code, out, err = run("plan", "--resolved", str(file))
    assert (code, out) == (2, "")
    assert "cluster: is missing" in err


@pytest.mark.parametrize("more", [["--json"], ["-s", "gke-h100"], ["--hosts-dir", "x"]])
def test_resolved_plan_is_of_one_stack_and_has_no_other_option(run: Any, more: list[str]) -> None:
    code, out, err = run("plan", "--resolved", "-s", "hosts-a100", *more)
    assert (code, out) == (2, "")
    assert "--resolved prints one stack file" in err
