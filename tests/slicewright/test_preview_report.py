"""`slicewright preview-report`: what it says of a preview, what it refuses, and exit codes."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from slicewright import cli
from slicewright.infra import plan
from slicewright.infra import stack_file as spec
from slicewright.preview import fleets, losses, markdown, steps

FLEET = {
    "cloud": "eks",
    "cluster": {"name": "main", "region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]},
    "node_pools": [
        {
            "name": "train",
            "machine_type": "p4d.24xlarge",
            "nodes": {"count": 2},
            "partition": {"mode": "operator", "config": "all-1g.5gb"},
        }
    ],
}
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
GROUP = "aws:eks/nodeGroup:NodeGroup"


def urn(name: str, of: str = GROUP) -> str:
    return f"urn:pulumi:dev::fleet::slicewright:index:EksCluster${of}::{name}"


def step(op: str, name: str, of: str = GROUP, **more: Any) -> dict[str, Any]:
    old = {"id": f"main:{name}", "created": "2026-01-01T00:00:00Z", "outputs": {}}
    return {"op": op, "urn": urn(name, of), "oldState": {**old, **more.pop("old", {})}, **more}


def replaced(name: str, field: str = "instanceTypes") -> dict[str, Any]:
    return step(
        "replace",
        name,
        detailedDiff={field: {"kind": "update-replace"}, "labels.a": {"kind": "add"}},
        old={"outputs": {"scalingConfig": {"desiredSize": 3}}},
    )


def stack_file(directory: Path, *, fleet: Any = FLEET, acknowledged: Any = None) -> str:
    config = {"slicewright:fleet": fleet}
    if acknowledged is not None:
        config["slicewright:acknowledged"] = acknowledged
    file = directory / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": config}))
    return str(file)


def preview_file(directory: Path, *raw: dict[str, Any], **more: Any) -> str:
    file = directory / "preview.json"
    file.write_text(json.dumps({"steps": raw, **more}))
    return str(file)


def parsed(text: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def cells(text: str) -> list[list[str]]:
    """Of all rows of the report's tables, as a reader of GitHub's Markdown sees them."""
    found: list[list[str]] = []
    for token in parsed(text):
        if token.type == "tr_open":
            found.append([])
        elif token.type == "inline" and found and token.level > 2:
            found[-1].append("".join(part.content for part in token.children or ()))
    return found


def test_a_replaced_pool_is_refused_until_the_stack_file_acknowledges_this_very_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preview = preview_file(tmp_path, replaced("train"), step("same", "other"))
    arguments = ["preview-report", "-s", stack_file(tmp_path), preview]
    assert cli.main(arguments) == cli.NOT_VERIFIED
    out, err = capsys.readouterr()
    assert "1 change ends pods or deletes data, and is not acknowledged" in out
    assert "not acknowledged in" in err
    assert "train" in err
    (code,) = re.findall(r'- "(train:[0-9a-f]{8})"', out)
    assert ["🔴 replaced", f"train ({GROUP})", "3 nodes and the pods on them", "instanceTypes"] in (
        cells(out)
    )

    stack_file(tmp_path, acknowledged=[code])
    assert cli.main(arguments) == cli.VERIFIED
    out = capsys.readouterr().out
    assert "all are acknowledged" in out
    assert "🟠 replaced" in out

    preview_file(tmp_path, replaced("train", "amiType"))
    assert cli.main(arguments) == cli.NOT_VERIFIED
    assert f"No longer needed in `slicewright:acknowledged`: `{code}`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (step("delete", "train"), True),
        (step("create-replacement", "train"), True),
        (step("delete", "main", "aws:eks/cluster:Cluster"), True),
        (step("delete", "train", "gcp:container/nodePool:NodePool"), True),
        (
            step("replace", "crd", "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"),
            True,
        ),
        (step("delete", "ns", "kubernetes:core/v1:Namespace"), True),
        (step("replace", "gpu-operator", "kubernetes:helm.sh/v3:Release"), True),
        (step("delete", "llm", "kubernetes:apps/v1:Deployment"), True),
        (step("delete", "karpenter-a-nodepool", "kubernetes:karpenter.sh/v1:NodePool"), True),
        (step("replace", "llm-claim", "kubernetes:core/v1:PersistentVolumeClaim"), True),
        (step("update", "train"), False),
        (step("delete", "train", old={"retainOnDelete": True}), False),
        (step("replace", "role", "aws:iam/role:Role"), False),
        (step("same", "train"), False),
    ],
)
def test_only_resources_that_pods_run_on_are_guarded(change: dict[str, Any], asked: bool) -> None:
    preview = steps.read_preview(json.dumps({"steps": [change]}))
    assert bool(losses.guard(preview, ()).open) is asked


@pytest.mark.parametrize(
    ("chart", "said"),
    [
        ("gpu-operator", "no GPU is offered"),
        ("oci://registry.example.com/charts/gpu-operator", "no GPU is offered"),
        ("keda", "replicas stay as they are"),
        ("oci://registry.example.com/charts/keda", "replicas stay as they are"),
        ("kube-prometheus-stack", "Prometheus's data"),
        ("cluster-autoscaler", "the autoscaler: existing nodes stay"),
    ],
)
def test_deletions_with_a_release_are_named_by_its_chart(chart: str, said: str) -> None:
    change = step("delete", "r", "kubernetes:helm.sh/v3:Release", old={"inputs": {"chart": chart}})
    preview = steps.read_preview(json.dumps({"steps": [change]}))
    (loss,) = losses.guard(preview, ()).open
    assert said in loss.affected


def test_the_same_change_of_a_recreated_pool_is_acknowledged_again() -> None:
    """GKE's IDs are names, and the same again."""
    codes = set()
    for created in ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"):
        raw = replaced("train")
        raw["oldState"]["created"] = created
        preview = steps.read_preview(json.dumps({"steps": [raw]}))
        codes |= {loss.code for loss in losses.guard(preview, ()).open}
    assert len(codes) == 2


def test_the_steps_of_a_replacement_are_one_change() -> None:
    raw = [step(op, "train") for op in ("create-replacement", "replace", "delete-replaced")]
    assert len(steps.read_preview(json.dumps({"steps": raw})).steps) == 1


def test_the_report_shows_rollouts_and_costs_with_the_earlier_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pool,) = FLEET["node_pools"]  # type: ignore[misc]
    (tmp_path / "old").mkdir()
    before = stack_file(tmp_path / "old")
    layout = {"mode": "operator", "config": "all-balanced"}
    after = {**FLEET, "node_pools": [{**pool, "partition": layout, "nodes": {"count": 3}}]}
    code = cli.main(
        [
            "preview-report",
            *("-s", stack_file(tmp_path, fleet=after)),
            *("--before", before),
            preview_file(tmp_path, step("update", "train")),
        ]
    )
    out = capsys.readouterr().out
    assert code == cli.VERIFIED
    (row,) = (row for row in cells(out) if row[0] == "train" and len(row) == 4)
    assert row[1:3] == ["🟡 roll", "2 nodes"]
    costs = re.search(r"([\d.]+) USD/h → ([\d.]+) USD/h \(([\d.]+) USD/h more at most\)", out)
    assert costs is not None
    old, new, more = map(float, costs.groups())
    assert new - old == pytest.approx(more, abs=0.011)
    assert more > 0


def test_an_earlier_file_with_bases_is_compared_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").mkdir()
    before = stack_file(tmp_path / "old", fleet={"extends": "base.yaml", "pod_guard": {}})
    arguments = [
        "preview-report",
        *("-s", stack_file(tmp_path)),
        *("--before", before),
        preview_file(tmp_path, step("update", "train")),
    ]
    assert cli.main(arguments) == cli.BAD_INPUT
    err = capsys.readouterr().err
    assert "--before: " in err
    assert "extends: " in err
    assert "a stack file with extends is compared in a checkout of its commit" in err
    Path(stack_file(tmp_path / "old")).rename(tmp_path / "old" / "base.yaml")
    assert before == stack_file(tmp_path / "old", fleet={"extends": "base.yaml", "pod_guard": {}})
    assert cli.main(arguments) == cli.VERIFIED


def test_a_failed_preview_is_reported_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        {"severity": "error", "message": "error: no\n```\n# such\x1b[31m region"},
        {"severity": "warning", "message": "old"},
    ]
    preview = preview_file(tmp_path, diagnostics=said)
    assert cli.main(["preview-report", "-s", stack_file(tmp_path), preview]) == cli.NOT_VERIFIED
    out, err = capsys.readouterr()
    blocks = [
        t.content
        for t in MarkdownIt("gfm-like", {"linkify": False}).parse(out)
        if t.type == "fence"
    ]
    assert blocks == ["no\n```\n# such\\x1b[31m region\n", "old\n"]
    assert "failed" in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("error: no stack", "it is not JSON"),
        ("[]", "it has no list of steps"),
        ("{}", "neither steps nor diagnostics"),
        ('{"sequence": 0}\n{"sequence": 1}\n', "an event per line"),
        ('{"steps": [{"urn": "x"}]}', "not in Pulumi's format"),
        ('{"steps": [{"op": "create", "urn": "x"}]}', "'x' is not a URN"),
        ('{"steps": [3]}', "not in Pulumi's format"),
    ],
)
def test_an_invalid_preview_is_refused_with_its_reason(
    text: str,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli.main(["preview-report", "-s", stack_file(tmp_path), "-"]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert why in err
    assert not out


@pytest.mark.parametrize("wrong", ["train:0011aabb", {"a": "b"}, [1], ["train"], ["train:xyz"]])
def test_a_wrong_acknowledgement_is_refused(
    wrong: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = stack_file(tmp_path, acknowledged=wrong)
    assert cli.main(["preview-report", "-s", stack, preview_file(tmp_path)]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert "slicewright:acknowledged" in err
    assert not out


def test_a_missing_preview_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none.json")
    assert cli.main(["preview-report", "-s", stack_file(tmp_path), missing]) == cli.CANNOT_RUN
    assert f"{missing}: No such file" in capsys.readouterr().err


NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: "::" not in f":{name}:" and "$" not in name
)


@settings(max_examples=30)
@given(st.lists(NAMES, unique=True, max_size=12))
def test_no_name_breaks_a_table_or_the_list_to_acknowledge(names: list[str]) -> None:
    text, guard = _reported([replaced(name) for name in names])
    ended = [row for row in cells(text) if len(row) == 4 and row[0].startswith("🔴")]
    assert len(ended) == len(names)
    if names:
        quoted = re.search(r"> ```yaml\n(.*?)> ```", text, re.DOTALL)
        assert quoted is not None
        said = yaml.safe_load(re.sub(r"^> ?", "", quoted[1], flags=re.MULTILINE))
        assert said["config"]["slicewright:acknowledged"] == [loss.code for loss in guard.open]


@pytest.mark.parametrize(("lost", "created"), [(0, 0), (0, 3000), (3000, 0), (1, 3000), (900, 900)])
def test_a_report_of_any_size_fits_into_a_comment_and_keeps_the_verdict(
    lost: int, created: int
) -> None:
    raw = [replaced(f"pool-{n}" * 8) for n in range(lost)]
    text, _ = _reported([*raw, *(step("create", f"role-{n}" * 8) for n in range(created))])
    assert len(text) <= markdown.LONGEST
    assert ("[!CAUTION]" in text) is (lost > 0)
    assert ("### What ends" in text) is (lost > 0)


@given(st.permutations(range(60)))
def test_node_pools_lead_the_resources_whatever_the_engines_order(order: list[int]) -> None:
    """Of 61 resources, 40 are listed."""
    roles = [step("create", f"role-{n}", "aws:iam/role:Role") for n in order]
    text, _ = _reported([*roles[:30], step("create", "train"), *roles[30:]])
    assert ["train", GROUP, ""] in cells(text)
    assert text == _reported([*reversed(roles), step("create", "train")])[0]


def _reported(raw: list[dict[str, Any]]) -> tuple[str, losses.Guard]:
    preview = steps.read_preview(json.dumps({"steps": raw}))
    guard = losses.guard(preview, ())
    return markdown.report("dev", preview, guard, FLEETS), guard


FLEETS = fleets.Fleets(after=plan.read(json.dumps(FLEET), spec.Source("dev", FLEET)), before=None)


def test_two_files_cannot_both_be_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"steps": []}')))
    arguments = ["preview-report", "-s", stack_file(tmp_path), "--live", "--kubeconfig", "-", "-"]
    assert cli.main(arguments) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot both be stdin" in err


def test_an_unreachable_cluster_ends_the_command_without_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preview.json").write_text('{"steps": []}')
    where = ["--live", "--kubeconfig", str(tmp_path / "nosuch"), str(tmp_path / "preview.json")]
    assert cli.main(["preview-report", "-s", stack_file(tmp_path), *where]) == cli.CANNOT_RUN
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--live: " in err
    assert "nosuch: No such file or directory" in err


def test_the_stack_file_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = stack_file(tmp_path, acknowledged=["a:12345678"])
    with mock.patch.object(Path, "read_bytes", autospec=True, side_effect=Path.read_bytes) as read:
        assert cli.main(["preview-report", "-s", stack, preview_file(tmp_path)]) == cli.VERIFIED
    assert [str(call.args[0]) for call in read.call_args_list].count(stack) == 1
    assert "a:12345678" in capsys.readouterr().out


def test_an_unreadable_acknowledgement_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep: Any = "a:12345678"
    for _ in range(80):
        deep = [deep]
    stack = stack_file(tmp_path, acknowledged=deep)
    assert cli.main(["preview-report", "-s", stack, preview_file(tmp_path)]) == cli.BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


class TestPoolsThatEnd:
    """By the label that their nodes have, whatever the cloud calls the node pool."""

    LABELS = {"labels": {"slicewright.io/pool": "train"}}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("change", "ends"),
        [
            (step("replace", "eks-train", old={"outputs": LABELS}), {"train": "replaced"}),
            (
                step(
                    "delete",
                    "gke-train",
                    "gcp:container/nodePool:NodePool",
                    old={"outputs": {"nodeConfig": LABELS}},
                ),
                {"train": "deleted"},
            ),
            (
                step(
                    "delete",
                    "karpenter-train-nodepool",
                    "kubernetes:karpenter.sh/v1:NodePool",
                    old={"outputs": {"spec": {"template": {"metadata": LABELS}}}},
                ),
                {"train": "deleted"},
            ),
            (
                step("replace", "main", "aws:eks/cluster:Cluster"),
                {"train": "replaced", "serve": "replaced"},
            ),
            (step("update", "eks-train", old={"outputs": LABELS}), {}),
            (step("delete", "eks-train", old={"outputs": LABELS, "retainOnDelete": True}), {}),
            (step("delete", "system", old={"outputs": {"labels": {"role": "system"}}}), {}),
            (step("replace", "llm", "kubernetes:apps/v1:Deployment"), {}),
        ],
    )
    def test_are_those_of_node_pools_that_are_replaced_or_deleted(
        self, change: dict[str, Any], ends: dict[str, str]
    ) -> None:
        preview = steps.read_preview(json.dumps({"steps": [change]}))
        assert losses.pools_that_end(preview, ["train", "serve"]) == ends
