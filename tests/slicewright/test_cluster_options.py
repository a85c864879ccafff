"""Which cluster a command asks that is given a stack file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.live.access import NoCluster
from slicewright.options.cluster_options import access_of, stack_of

ROOT = Path(__file__).resolve().parents[2]


def _config(*names: str) -> str:
    return json.dumps(
        {
            "current-context": names[0],
            "contexts": [{"name": n, "context": {"cluster": n, "user": n}} for n in names],
            "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in names],
        }
    )


@pytest.fixture
def own_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The context that existing-a100-t4's file names; the kubeconfig's current one is another."""
    _, fleet = stack_of(_parsed(stack=str(ROOT / "stacks/Pulumi.existing-a100-t4.yaml"))) or (
        None,
        None,
    )
    assert isinstance(fleet, ExistingFleetPlan)
    assert fleet.cluster is not None
    (tmp_path / "config").write_text(_config("current", fleet.cluster.context))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return fleet.cluster.context


def _parsed(**options: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"kubeconfig": None, "context": None, "stack": None, **options})


def _asked(stack: Path | None, **options: Any) -> str:
    parsed = _parsed(stack=None if stack is None else str(stack), **options)
    return access_of(parsed, stack_of(parsed)).context.name


def test_a_file_of_an_existing_cluster_names_its_context(own_context: str) -> None:
    assert _asked(ROOT / "stacks/Pulumi.existing-a100-t4.yaml") == own_context
    assert _asked(ROOT / "stacks/Pulumi.existing-a100-t4.yaml", context="current") == "current"


def test_a_file_of_a_cloud_names_none(own_context: str) -> None:
    assert _asked(ROOT / "stacks/Pulumi.eks-a100.yaml") == "current"
    assert _asked(None) == "current"


def test_a_kubeconfig_of_the_file_is_relative_to_its_project(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    text = (ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml").read_text()
    stack = tmp_path / "stacks" / "Pulumi.own.yaml"
    stack.write_text(text.replace("context: gpu", "kubeconfig: own.json, context: gpu", 1))
    with pytest.raises(NoCluster, match=f"{tmp_path}/own.json: No such file"):
        _asked(stack)


def test_hosts_without_kubernetes_have_no_cluster_to_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["status", "-s", "hosts-a100"]) == cli.CANNOT_RUN
    assert "lists hosts without Kubernetes; run `slicewright-agent show`" in capsys.readouterr().err


def test_a_pool_that_is_not_in_the_file_is_refused_before_any_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["status", "-s", "eks-a100", "nosuch"]) == cli.BAD_INPUT
    assert "eks-a100 has no pool nosuch; it has demo-gpu-workers" in capsys.readouterr().err
