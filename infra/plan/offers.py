"""What a pool's nodes will offer: its partitions, then who shares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra import spec
from infra.plan.findings import Findings
from infra.plan.fleet import Layout, Share
from infra.plan.nodes import PLUGIN_CONFIG_LABEL, AnyCloud, AnyPool, GpuMachine, Gpus
from infra.plan.partitions import Cut, Strategy, native_cut, operator_cut, outcome, whole
from infra.plan.shares import fractional_resources
from infra.plan.sharing import gke_shares, plugin_shares


@dataclass(frozen=True, kw_only=True)
class Offer:
    layouts: tuple[Layout, ...]
    devices: Mapping[str, int]
    shares: tuple[Share, ...]
    resources: Mapping[str, int]
    desired: str
    layout_hash: str
    mig_config: str | None
    labels: Mapping[str, str]
    """Labels that the nodes need for it."""

    @property
    def per_node(self) -> int:
        """Pods that can hold something of a node's GPUs."""
        return sum(self.resources.values())


def offer_of(
    pool: AnyPool,
    path: spec.Path,
    found: Gpus,
    *,
    cloud: AnyCloud,
    strategy: Strategy,
    fractional: spec.Fractional | None,
    findings: Findings,
) -> Offer | None:
    """None where it is refused."""
    cut = _cut(pool, (*path, "partition"), found, strategy, findings)
    if cut is None:
        return None
    at = (*path, "sharing")
    shares: tuple[Share, ...] | None = ()
    resources: Mapping[str, int] | None = None
    labels: Mapping[str, str] = {}
    match pool.sharing:
        case spec.Exclusive():
            pass
        case spec.FractionalShares():
            if cut.partitioned:
                findings.refuse(at, "fractions and MIG do not go together on a pool", "leave one out", "Project-HAMi/HAMi docs")
                return None
            if fractional is not None:
                resources = fractional_resources(fractional, found.gpu, found.count)
        case spec.TimeSlicing() | spec.Mps() as asked:
            if cloud == "gke" and cut.partitioner != "mig-manager":
                shares = gke_shares(asked, at, cut.devices, findings)
            else:
                shares = plugin_shares(
                    asked,
                    at,
                    cut.devices,
                    partitioned=cut.partitioned,
                    strategy=strategy,
                    cloud=cloud,
                    findings=findings,
                )
                labels = {PLUGIN_CONFIG_LABEL: pool.name}
    if shares is None:
        return None
    result = outcome(pool.name, found, cut, shares, resources=resources)
    return Offer(
        layouts=cut.layouts,
        devices=cut.devices,
        shares=shares,
        resources=result.resources,
        desired=result.desired,
        layout_hash=result.layout_hash,
        mig_config=cut.mig_config,
        labels=labels,
    )


def _cut(pool: AnyPool, path: spec.Path, found: Gpus, strategy: Strategy, findings: Findings) -> Cut | None:
    match pool.partition:
        case spec.Unpartitioned():
            return whole(found)
        case spec.Native() as asked:
            assert isinstance(found, GpuMachine), "only GKE's pools may be native, and they have machines"
            return native_cut(asked, path, found, findings)
        case spec.Operator() as cut_by_operator:
            return operator_cut(cut_by_operator, pool.name, path, found, strategy, findings)
