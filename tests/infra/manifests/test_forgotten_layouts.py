"""A preview is refused that would take from mig-manager a layout by GPU index that nodes have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from slicewright.infra import plan
from slicewright.infra.components.fleet import gpu_pool_object, pool_verification
from slicewright.infra.manifests.gpu_operator.forgotten_layouts import forgotten_layouts
from slicewright.infra.manifests.gpu_operator.mig_layouts import mig_parted_config

ROOT = Path(__file__).resolve().parents[3]
OLD = [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1, 2, 3, 4, 5, 6, 7], "layout": {}}]
NEW = [{"index": [7], "layout": {"1g.5gb": 7}}, {"index": [0, 1, 2, 3, 4, 5, 6], "layout": {}}]


def planned(tmp_path: Path, **partition: Any) -> plan.FleetPlan:
    stack = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text())
    fleet = stack["config"]["slicewright:fleet"]
    fleet["node_pools"][0]["partition"] = {"mode": "operator", **partition}
    fleet["gpu_operator"]["mig_strategy"] = "mixed"
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump(stack))
    return plan.read_file(file)


def spec_of(pool: plan.PoolPlan) -> dict[str, Any]:
    return gpu_pool_object.pool_spec(pool)


def status_of(pool: plan.PoolPlan, *, verified: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "nodes": {"total": 2.0},
        "layout": pool.offer.mig_config,
        "provenLayouts": [entry_of(pool)],
        "conditions": [{"type": "Verified", "status": str(verified), "observedGeneration": 1}],
        **more,
    }


def entry_of(pool: plan.PoolPlan) -> dict[str, Any]:
    spec = spec_of(pool)
    return {key: spec[key] for key in ("migConfig", "layoutHash", "desiredState")}


def refused(after: plan.FleetPlan, before: plan.PoolPlan, status: Any = None) -> str | None:
    (pool,) = after.pools
    names = mig_parted_config(after.pools)["mig-configs"]
    return forgotten_layouts(pool, names, spec_of(before), status or status_of(before))


@pytest.mark.parametrize("now", [{"gpus": NEW}, {"config": "all-1g.5gb"}], ids=str)
def test_stack_file_accepts_the_remedy_for_a_forgotten_layout(
    now: dict[str, Any], tmp_path: Path
) -> None:
    (before,) = planned(tmp_path, gpus=OLD).pools
    said = refused(planned(tmp_path, **now), before)
    assert said is not None
    assert f"have layout {before.offer.mig_config}, by GPU index" in said
    (text,) = re.findall(r"^  (previous: .*)$", said, flags=re.M)
    after = planned(tmp_path, **now, **yaml.safe_load(text))
    assert refused(after, before) is None
    assert after.pools[0].offer.previous == (before.offer.layouts,)


def test_remedy_for_whole_gpus_uses_the_form_with_previous(tmp_path: Path) -> None:
    (before,) = planned(tmp_path, gpus=OLD).pools
    said = refused(planned(tmp_path, config="all-disabled"), before) or ""
    assert "{mode: operator, config: all-disabled, previous: …}" in said


def test_node_that_has_not_reached_the_declared_layout_counts_too(tmp_path: Path) -> None:
    """A rollout from OLD to NEW is under way, and the file asks for a third layout."""
    (first,) = planned(tmp_path, gpus=OLD).pools
    (second,) = planned(tmp_path, gpus=NEW).pools
    under_way = status_of(second, verified=False, provenLayouts=[entry_of(first)])
    said = refused(planned(tmp_path, config="all-1g.5gb"), second, under_way) or ""
    assert str(first.offer.mig_config) in said
    assert str(second.offer.mig_config) in said
    (text,) = re.findall(r"^  (previous: .*)$", said, flags=re.M)
    assert len(yaml.safe_load(text)["previous"]) == 2
    over = status_of(second, provenLayouts=[entry_of(second), entry_of(first)])
    said = refused(planned(tmp_path, config="all-1g.5gb"), second, over) or ""
    assert str(first.offer.mig_config) not in said


def test_layout_is_not_forgotten_if_no_node_has_it_or_all_gpus_share_it(
    tmp_path: Path,
) -> None:
    by_index = planned(tmp_path, gpus=OLD)
    uniform = planned(tmp_path, config="all-1g.5gb")
    (before,) = by_index.pools
    assert refused(by_index, before) is None
    assert refused(uniform, uniform.pools[0]) is None
    assert refused(uniform, before, status_of(before, nodes={"total": 0})) is None
    names = mig_parted_config(uniform.pools)["mig-configs"]
    assert forgotten_layouts(uniform.pools[0], names, None, None) is None


def test_layout_without_a_desired_state_is_shown_by_its_name(tmp_path: Path) -> None:
    (before,) = planned(tmp_path, gpus=OLD).pools
    name = f"{before.name}-0123abcd"
    status = {"nodes": {"total": 1}, "layout": name}
    said = refused(planned(tmp_path, gpus=OLD), before, status) or ""
    assert f"layout {name}" in said
    assert "List that layout under partition.previous" in said


@pytest.mark.parametrize("now", [{"gpus": OLD}, {"config": "all-1g.5gb"}], ids=str)
def test_replaced_machines_have_no_earlier_layout(now: dict[str, Any], tmp_path: Path) -> None:
    """Their GPUs may not even have those profiles, so that `previous` could not name them."""
    (before,) = planned(tmp_path, **now).pools
    text = (tmp_path / "Pulumi.x.yaml").read_text().replace("p4d.24xlarge", "p5.48xlarge")
    text = text.replace("1g.5gb", "1g.10gb").replace("eu-west-1", "us-west-2")
    (tmp_path / "Pulumi.x.yaml").write_text(text)
    after = plan.read_file(tmp_path / "Pulumi.x.yaml")
    assert after.pools[0].offer.mig_config not in (None, before.offer.mig_config)
    assert refused(after, before) is None


@pytest.mark.parametrize("preview", [True, False])
def test_forgotten_layout_fails_a_preview_and_not_a_running_up(
    preview: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an `up` it would be too late: what it has begun, it ends."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    (before,) = planned(tmp_path, gpus=OLD).pools
    (after,) = planned(tmp_path, gpus=NEW).pools
    live = pool_verification.Live(
        spec=spec_of(before), status=status_of(before), metadata={"generation": 1}
    )
    known = {after.name: live}
    if not preview:
        assert pool_verification.check_verified({after.name: after}, known)
        return
    with pytest.raises(pool_verification.LayoutForgotten, match=str(before.offer.mig_config)):
        pool_verification.check_verified({after.name: after}, known)
