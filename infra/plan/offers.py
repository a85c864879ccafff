"""What a pool's nodes will offer: its partitions, then who shares them."""

from __future__ import annotations

from collections.abc import Mapping

from infra import spec
from infra.plan.findings import Findings
from infra.plan.fleet import Offer, Share
from infra.plan.machines import GpuMachine, Gpus
from infra.plan.nodes import NO_GKE_PLUGIN_LABEL, PLUGIN_CONFIG_LABEL, AnyCloud, AnyPool
from infra.plan.partitions import (
    Cut,
    Strategy,
    check_ways,
    native_cut,
    operator_cut,
    outcome,
    whole,
)
from infra.plan.shares import fractional_resources
from infra.plan.sharing import gke_shares, plugin_shares


def offer_of(
    pool: AnyPool,
    path: spec.Path,
    found: Gpus | None,
    *,
    cloud: AnyCloud,
    strategy: Strategy,
    fractional: spec.Fractional | None,
    findings: Findings,
) -> tuple[Offer, Mapping[str, str]] | None:
    """What the nodes offer, and the labels that they need for it; None where it is refused, or
    `found` was before.

    How the GPUs are shared is judged in any case, as far as that can be without their partitions.
    """
    at_cut, at = (*path, "partition"), (*path, "sharing")
    cut = _cut(pool, at_cut, found, strategy, findings)
    if not findings.knows(at_cut):
        cut = None
    devices = cut.devices if cut else None
    partitioned = not isinstance(pool.partition, spec.Unpartitioned)
    shares: tuple[Share, ...] | None = ()
    resources: Mapping[str, int] | None = None
    labels = (
        {NO_GKE_PLUGIN_LABEL: "true"}
        if cloud == "gke" and isinstance(pool.partition, spec.Operator)
        else {}
    )
    match pool.sharing:
        case spec.Exclusive():
            pass
        case spec.FractionalSharing():
            if partitioned:
                findings.refuse(
                    at,
                    "fractions and MIG do not go together on a pool",
                    "leave one out",
                    "Project-HAMi/HAMi docs",
                )
                return None
            if fractional is not None and found is not None:
                resources = fractional_resources(fractional, found.gpu, found.count)
        case spec.TimeSlicing() | spec.Mps() as asked:
            if cloud == "gke" and not findings.knows((*at_cut, "mode")):
                shares = None  # GKE's plugin or NVIDIA's: the partition decides
            elif cloud == "gke" and not isinstance(pool.partition, spec.Operator):
                shares = gke_shares(asked, at, devices, findings)
            else:
                shares = plugin_shares(
                    asked,
                    at,
                    devices,
                    partitioned=partitioned,
                    strategy=strategy,
                    cloud=cloud,
                    findings=findings,
                )
                labels[PLUGIN_CONFIG_LABEL] = pool.name
    if found is None or cut is None or shares is None:
        return None
    result = outcome(pool.name, found, cut, shares, resources=resources)
    offer = Offer(
        layouts=cut.layouts,
        devices=cut.devices,
        shares=shares,
        resources=result.resources,
        desired=result.desired,
        layout_hash=result.layout_hash,
        mig_config=cut.mig_config,
    )
    return offer, labels


def _cut(
    pool: AnyPool, path: spec.Path, found: Gpus | None, strategy: Strategy, findings: Findings
) -> Cut | None:
    if isinstance(pool.partition, spec.Operator):
        check_ways(pool.partition, path, findings)
    if found is None:
        return None
    match pool.partition:
        case spec.Unpartitioned():
            return whole(found)
        case spec.Native() as asked:
            assert isinstance(found, GpuMachine), (
                "only GKE's pools may be native, and they have machines"
            )
            return native_cut(asked, path, found, findings)
        case spec.Operator() as cut_by_operator:
            return operator_cut(cut_by_operator, pool.name, path, found, strategy, findings)
