"""The program in a cluster that exists: what it declares there, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from slicewright.apis import names as api
from slicewright.infra import cluster_resources, plan, program, stack_file
from slicewright.infra.components import existing_cluster
from slicewright.infra.components.fleet.gpu_pool_object import GPUPool
from slicewright.infra.plan import ExistingClusterPlan
from tests.recorder import recorded

ROOT = Path(__file__).resolve().parents[3]
FLEET = """\
cloud: byo
cluster: {name: lab, context: lab-admin, kubeconfig: KUBECONFIG}
node_pools:
- name: a100
  gpu: {model: A100-40, count: 1}
  nodes: {count: 2}
  select: {rack: "7"}
  labels: {team: vision}
  partition: {mode: operator, config: all-balanced}
"""
CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "lab", "user": {"token": "very-secret"}}],
    "contexts": [{"name": "lab-admin", "context": {"cluster": "lab", "user": "lab"}}],
}
Record = Callable[..., list[Any]]


def inputs(made: list[Any], kind: str, name: str = "") -> list[Mapping[str, Any]]:
    return [m.inputs for m in made if m.type.endswith(kind) and name in m.name and not m.read]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A kubeconfig with a token, in a file."""
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(CONFIG))
    return file


@pytest.fixture
def lab(record: Record, written: Path) -> list[Any]:
    return record("lab", fleet=FLEET.replace("KUBECONFIG", str(written)))


def test_existing_cluster_stack_creates_only_kubernetes_resources(record: Record) -> None:
    kinds = {m.type.partition(":")[0] for m in record("existing-a100-t4")}
    assert kinds == {"pulumi", "kubernetes", "slicewright"}


def test_the_state_gets_the_path_of_the_kubeconfig_and_not_its_secrets(
    lab: list[Any], written: Path, as_json: Callable[[Any], str]
) -> None:
    (provider,) = inputs(lab, "providers:kubernetes")
    assert provider == {
        "kubeconfig": str(written),
        "context": "lab-admin",
        "clusterIdentifier": "lab-admin",
    }
    assert "very-secret" not in as_json([m.inputs for m in lab])


def test_provider_finds_the_kubeconfig_like_kubectl_if_no_path_is_stated(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    made = record("lab", fleet=FLEET.replace(", kubeconfig: KUBECONFIG", ""))
    (provider,) = inputs(made, "providers:kubernetes")
    assert provider["kubeconfig"] == "", "else the SDK would take the variable for a file"
    assert provider["context"] == "lab-admin"


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [("~/.kube/config", "~/.kube/config"), ("/etc/k", "/etc/k"), ("keys/k", "/project/keys/k")],
)
def test_kubeconfig_path_is_relative_to_the_project(given: str, passed_on: str) -> None:
    assert existing_cluster.input_of(given, Path("/project")) == passed_on


def test_pool_of_existing_nodes_has_their_selector_and_labels(lab: list[Any]) -> None:
    (pool,) = inputs(lab, ":GPUPool")
    assert pool["spec"]["selector"] == {"matchLabels": {"rack": "7"}}
    assert pool["spec"]["existingNodes"] == {
        "labels": {"team": "vision", api.POOL_LABEL: "a100"},
        "migLayoutOnRelease": "Keep",
    }


def test_a_pool_stays_until_its_nodes_are_released(lab: list[Any], record: Record) -> None:
    assert [pool["metadata"]["finalizers"] for pool in inputs(lab, ":GPUPool")] == [
        [api.RELEASE_FINALIZER]
    ]
    for stack in ("gke-h100", "eks-a100"):
        (pool,) = inputs(record(stack), ":GPUPool")
        assert "finalizers" not in pool["metadata"], "nodes of a cloud pool go with their pool"


def test_mig_is_disabled_on_destroy_only_if_the_stack_file_says_so(record: Record) -> None:
    fleet = f"{FLEET.replace(', kubeconfig: KUBECONFIG', '')}on_destroy: {{mig_layout: disable}}\n"
    (pool,) = inputs(record("lab", fleet=fleet), ":GPUPool")
    assert pool["spec"]["existingNodes"]["migLayoutOnRelease"] == "Disable"


def test_existing_nodes_get_the_label_that_selects_their_sharing_config(record: Record) -> None:
    pools = {
        pool["metadata"]["name"]: pool["spec"]
        for pool in inputs(record("existing-a100-t4"), ":GPUPool")
    }
    assert {name: one["existingNodes"]["labels"] for name, one in pools.items()} == {
        name: {api.POOL_LABEL: name, "nvidia.com/device-plugin.config": name}
        for name in ("a100-40gb", "tesla-t4")
    }  # S4-53, S4-61
    assert all(
        one["selector"] == {"matchLabels": {api.POOL_LABEL: name}} for name, one in pools.items()
    )


def test_pools_in_a_cloud_declare_no_existing_nodes(record: Record) -> None:
    for stack in ("gke-h100", "eks-a100"):
        (pool,) = inputs(record(stack), ":GPUPool")
        assert "existingNodes" not in pool["spec"]


def test_controller_and_operator_run_on_any_node_of_an_existing_cluster(lab: list[Any]) -> None:
    (controller,) = inputs(lab, ":Deployment")
    assert "nodeSelector" not in controller["spec"]["template"]["spec"]
    (release,) = inputs(lab, ":Release")
    assert "nodeSelector" not in release["values"]["operator"]


def test_the_agents_get_the_gpus_by_the_operators_runtime_class(lab: list[Any]) -> None:
    (agent,) = inputs(lab, ":DaemonSet")
    pod = agent["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"
    assert pod["nodeSelector"] == {api.POOL_LABEL: "a100"}
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_outputs_name_the_cluster_and_how_nodes_are_selected(written: Path) -> None:
    fleet = plan.read(
        json.dumps(yaml.safe_load(FLEET.replace("KUBECONFIG", str(written)))),
        stack_file.Source("test", {}),
    )
    (pool,) = cluster_resources.pool_outputs(fleet)
    assert pool["select"] == {"rack": "7"}
    assert "machine" not in pool
    assert pool["resources_per_node"] == {
        "nvidia.com/mig-1g.5gb": 2,
        "nvidia.com/mig-2g.10gb": 1,
        "nvidia.com/mig-3g.20gb": 1,
    }


def checked(cluster: ExistingClusterPlan, root: Path = ROOT) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        existing_cluster.check(cluster, root, stack_file.Source("stacks/Pulumi.x.yaml", {}))
    return str(refused.value)


def test_a_context_that_exists_is_accepted(written: Path) -> None:
    cluster = ExistingClusterPlan(name="lab", context="lab-admin", kubeconfig=str(written))
    existing_cluster.check(cluster, ROOT, stack_file.Source("test", {}))


def test_refusal_of_a_missing_context_lists_the_existing_ones(written: Path) -> None:
    said = checked(ExistingClusterPlan(name="lab", context="lab", kubeconfig=str(written)))
    assert f"cluster.context: there is no context 'lab' in {written}" in said
    assert "write one of lab-admin" in said


def test_a_kubeconfig_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    said = checked(ExistingClusterPlan(name="lab", context="lab", kubeconfig="none"), tmp_path)
    assert f"cluster.kubeconfig: there is no file {tmp_path / 'none'}" in said


def test_contexts_come_from_every_file_in_the_kubeconfig_variable(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_text("[not, a, kubeconfig]")
    cluster = ExistingClusterPlan(name="lab", context="lab-admin", kubeconfig=None)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{other}")
    assert f"in {tmp_path / 'gone'}, {other}" in checked(cluster)
    monkeypatch.setenv("KUBECONFIG", f"{other}:{written}")
    existing_cluster.check(cluster, ROOT, stack_file.Source("test", {}))


def test_up_refuses_a_wrong_context_before_any_resource(mocked: Any, written: Path) -> None:
    fleet = yaml.safe_load(FLEET.replace("KUBECONFIG", str(written)).replace("lab-admin", "typo"))
    pulumi.runtime.set_all_config({"slicewright:fleet": json.dumps(fleet)})
    with pytest.raises(pulumi.RunError, match="there is no context 'typo'"):
        program.main()
    assert mocked.made == []


def test_up_refuses_a_stack_of_hosts_with_an_alternative() -> None:
    raw = yaml.safe_load(FLEET) | {
        "hosts": [
            {
                "name": "h",
                "gpu": {"model": "A100-40", "count": 1},
                "gpus": [{"index": 0, "instances": [{"profile": "3g.20gb"}]}],
            }
        ]
    }
    (problem,) = plan.unbuildable(plan.read(json.dumps(raw), stack_file.Source("test", raw)))
    assert problem.path == ("hosts",)
    assert "does not reach hosts without Kubernetes" in problem.reason
    assert "slicewright-agent apply" in problem.instead


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("{nvidia.com/gpu.product: A100}", "it changes when the node's GPUs are partitioned"),
        ("{nvidia.com/mig.capable: 'true'}", "it changes when the node's GPUs are partitioned"),
        ("{slicewright.io/pool: other}", "is the pool's name, a100; write a100"),
    ],
)
def test_selector_with_a_label_that_partitions_change_is_refused(
    broken: Callable[[str], str], select: str, said: str
) -> None:
    assert said in broken(FLEET.replace('{rack: "7"}', select))


@pytest.mark.parametrize("key", ["node-role.kubernetes.io/gpu", "node-restriction.kubernetes.io/a"])
def test_the_pools_bring_no_label_of_kubernetes(broken: Callable[[str], str], key: str) -> None:
    said = broken(FLEET.replace("{team: vision}", f"{{{key}: vision}}"))
    assert "a kubernetes.io or k8s.io prefix belong to Kubernetes" in said
    assert key in said


@pytest.mark.parametrize(
    "select", ["{nvidia.com/gpu.family: ampere}", "{slicewright.io/pool: a100}"]
)
def test_selector_with_a_stable_label_is_accepted(select: str) -> None:
    raw = yaml.safe_load(FLEET.replace('{rack: "7"}', select))
    assert plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools


def test_the_startup_taint_of_new_nodes_is_the_stack_files_choice(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))
    plain = FLEET.replace(", kubeconfig: KUBECONFIG", "")
    kinds = {}
    for way in ("admission-policy", "registered", "none"):
        made = record(way, fleet=f"{plain}startup_taint: {way}\n")
        kinds[way] = {m.type.rpartition(":")[2] for m in made if "Mutating" in m.type}
        assert bool(said) == (way == "none")
    assert kinds == {
        "admission-policy": {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
        "registered": set(),
        "none": set(),
    }
    assert "a whole GPU in place of a partition" in said[0]


def test_startup_taint_policy_is_deleted_before_the_controller(
    record: Record,
) -> None:
    plain = FLEET.replace(", kubeconfig: KUBECONFIG", "")
    names = [m.name for m in record("x", fleet=f"{plain}startup_taint: admission-policy\n")]
    # A mock registers a resource once everything that it depends on is registered.
    assert names.index("fleet-controller") < names.index("startup-taint-policy")


def test_node_policy_guards_the_labels_that_select_nodes(
    lab: list[Any], record: Record, as_json: Callable[[Any], str]
) -> None:
    asked = "the labels by which pools select nodes"
    (policy,) = inputs(lab, ":ValidatingAdmissionPolicy", "node-guard")
    assert f"{asked} (rack)" in as_json(policy)
    (default,) = inputs(record("existing-a100-t4"), ":ValidatingAdmissionPolicy", "node-guard")
    assert asked not in as_json(default), "the pool's own label is guarded anyway"


def test_every_pool_is_read_only_after_all_pools_have_settled(
    zipapps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change for one of them may restart the device plugin on the nodes of all."""
    waits: dict[str, int] = {}
    init = GPUPool.__init__

    def noted(pool: GPUPool, name: str, **rest: Any) -> None:
        depends = rest["opts"].depends_on
        waits[name] = sum(isinstance(one, GPUPool) for one in depends)
        init(pool, name, **rest)

    monkeypatch.setattr(GPUPool, "__init__", noted)
    recorded(plan.read_file(ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml"), "existing-a100-t4")
    proofs = {name: count for name, count in waits.items() if name.endswith("-proof")}
    assert proofs == {"gpu-pool-a100-40gb-proof": 2, "gpu-pool-tesla-t4-proof": 2}
