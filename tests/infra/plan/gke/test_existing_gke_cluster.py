"""`cluster.existing` on GKE: what is asked of the cluster, and what of it keeps pools out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import GkeFleetPlan
from tests.recorder import Made

FLEET = """\
cloud: gke
cluster: {name: main, location: us-central1-c, existing: true}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
WITH_SYSTEM = FLEET + "system_pool: {nodes: {count: 1}}\n"


def planned(text: str) -> GkeFleetPlan:
    raw = yaml.safe_load(text)
    found = plan.read(json.dumps(raw), stack_file.Source("fleet", raw))
    assert isinstance(found, GkeFleetPlan)
    return found


def unfit(
    *,
    version: str = "1.34.1-gke.1431000",
    autopilot: bool = False,
    workload_pool: str | None = "p.svc.id.goog",
    gpu_networks: Collection[str] = (),
    dataplane_v2: bool = True,
    multi_networking: bool = True,
    managed_prometheus: bool = False,
    collectors: bool = True,
) -> str:
    return manifests.unfit_gke_cluster(
        planned(FLEET).cluster,
        project="p",
        version=version,
        autopilot=autopilot,
        workload_pool=workload_pool,
        gpu_networks=gpu_networks,
        dataplane_v2=dataplane_v2,
        multi_networking=multi_networking,
        managed_prometheus=managed_prometheus,
        collectors=collectors,
    )


def test_stack_in_an_existing_gke_cluster_creates_only_pools_and_their_account(
    record: Callable[..., list[Made]],
) -> None:
    made = [m for m in record("gke-h100", fleet=FLEET) if m.type.startswith("gcp:")]
    (cluster,) = [m for m in made if m.read]
    assert cluster.read.endswith("/locations/us-central1-c/clusters/main")
    assert sorted(m.type.partition("/")[0] for m in made if not m.read) == [
        "gcp:container",
        "gcp:projects",
        "gcp:serviceaccount",
    ]


def test_controller_runs_on_existing_nodes_without_a_system_pool(
    record: Callable[..., list[Made]],
) -> None:
    for text, selector, pools in (
        (FLEET, None, ["a"]),
        (WITH_SYSTEM, dict(plan.SYSTEM_LABELS), ["a", "system"]),
    ):
        made = record("gke-h100", fleet=text)
        (controller,) = [m for m in made if m.type == "kubernetes:apps/v1:Deployment"]
        pod = controller.inputs["spec"]["template"]["spec"]
        assert (pod.get("nodeSelector") or None) == selector
        found = [m.inputs["name"] for m in made if m.type == "gcp:container/nodePool:NodePool"]
        assert sorted(found) == pools


def test_existing_gke_cluster_needs_no_right_to_create_clusters_or_networks() -> None:
    fleet = planned(FLEET)
    assert plan.unbuildable(fleet) == ()
    rights = {need.right for need in manifests.rights(fleet)}
    assert not {"container.clusters.create", "container.clusters.delete"} & rights
    assert not {r for r in rights if r.startswith(("compute.networks.", "compute.subnetworks."))}
    assert {"container.clusters.get", "container.clusters.update"} <= rights


@pytest.mark.parametrize("key", ["private_nodes: true", "control_plane: {}", "version: '1.34'"])
def test_settings_of_an_existing_gke_cluster_are_refused(
    broken: Callable[[str], str], key: str
) -> None:
    said = broken(FLEET.replace("existing: true", f"existing: true, {key}"))
    assert f"cluster.{key.partition(':')[0]}: the cluster exists already" in said


def test_cluster_like_a_new_one_of_slicewright_fits_the_pools() -> None:
    assert unfit() == ""


def test_each_reason_against_an_existing_gke_cluster_has_a_remedy() -> None:
    said = unfit(version="1.29.9-gke.1", workload_pool=None)
    assert "its control plane is 1.29.9-gke.1" in said
    assert "it has no workload pool" in said
    assert "--workload-pool=p.svc.id.goog" in said
    assert "its workload pool is other.svc.id.goog" in unfit(workload_pool="other.svc.id.goog")


def test_autopilot_cluster_is_refused() -> None:
    said = unfit(autopilot=True, workload_pool=None)
    assert "it is an Autopilot cluster" in said
    assert "workload pool" not in said


def test_dranet_needs_dataplane_v2_and_a_recent_version() -> None:
    assert unfit(dataplane_v2=False) == ""
    old = unfit(version="1.34.1-gke.1431000", gpu_networks={"dranet"}, dataplane_v2=False)
    assert "it has no GKE Dataplane V2, which gpu_network needs" in old
    assert "gpu_network dranet needs 1.34.1-gke.1829001 or later: upgrade it" in old
    assert unfit(version="1.34.1-gke.1829001", gpu_networks={"dranet"}) == ""


def test_managed_prometheus_needs_the_clusters_collectors() -> None:
    said = unfit(managed_prometheus=True, collectors=False)
    assert "its managed collection is off, but monitoring.prometheus is managed: gcloud " in said
    assert said.endswith(
        "update main --location us-central1-c --project p --enable-managed-prometheus"
    )
    assert unfit(managed_prometheus=True) == unfit(collectors=False) == ""


def test_a_vpc_for_each_interface_needs_multi_networking() -> None:
    assert "multi-networking" in unfit(gpu_networks={"tcpxo"}, multi_networking=False)
    assert unfit(gpu_networks={"tcpxo"}) == ""
    assert unfit(gpu_networks={"dranet"}, version="1.35.0", multi_networking=False) == ""
    said = unfit(version="1.32.1-gke.1", gpu_networks={"tcpxo"})
    assert "too old for gpu_network tcpxo: upgrade it" in said
