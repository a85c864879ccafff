"""Workloads that serve models, against the pools that they run on: refused, planned, noted."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.plan.workloads.model_memory import model_memory, parameters

GOLDEN = Path(__file__).parents[1] / "golden"


def stack(name: str) -> dict[str, Any]:
    text = (GOLDEN / f"{name}.yaml").read_text()
    fleet: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    return fleet


STACK = stack("vllm")
TRITON = stack("triton")
CONTAINER = stack("container")


def written(
    *changes: tuple[str, Any], of: int = 0, stack: dict[str, Any] = STACK
) -> dict[str, Any]:
    """The fleet of a golden render with one workload, changed. A key is a dotted path."""
    raw = copy.deepcopy(stack)
    raw["workloads"] = [raw["workloads"][of]]
    for path, value in changes:
        *way, last = path.split(".")
        at: Any = raw["workloads"][0]
        for step in way:
            at = at[step]
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return raw


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(*changes: tuple[str, Any], of: int = 0, stack: dict[str, Any] = STACK) -> str:
    raw = written(*changes, of=of, stack=stack)
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    return str(refused.value)


def noted(*changes: tuple[str, Any], of: int = 0) -> list[str]:
    found = plan.notes(planned(written(*changes, of=of)))
    return [note for note in found if note.startswith("workload ")]


def test_the_model_of_s0_fits_a_3g_40gb_and_its_16_replicas_find_one_each() -> None:  # S0-35
    (one,) = planned(written()).deployments
    assert one.memory is not None
    assert (one.memory.weights_mib, one.memory.context_mib) == (23_366, 1_280)
    assert one.memory.needed_mib <= (one.usable_mib or 0)
    assert (one.resource, one.devices, one.runs, one.pending) == ("nvidia.com/gpu", 1, 16, 0)
    assert one.awaited
    assert one.profiles == ("3g.40gb",)


def test_the_model_of_s0_does_not_fit_a_2g_20gb_and_a_larger_partition_is_named() -> None:
    raw = written()
    raw["node_pools"][0]["partition"]["profile"] = "2g.20gb"
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    said = str(refused.value)
    assert "workloads[0].model: a replica needs 26182 MiB: 23366 MiB of weights" in said
    assert "90 % of a 2g.20gb of H100-80" in said
    assert "choose a pool with partitions of 3g.40gb or more" in said


def test_a_model_with_8_bit_weights_fits_a_partition_too_small_for_16_bits() -> None:
    raw = written(("model.weight_bits", 8))
    raw["node_pools"][0]["partition"]["profile"] = "2g.20gb"
    assert planned(raw).deployments[0].memory is not None


def test_a_context_that_is_too_long_is_refused_with_the_longest_that_fits() -> None:
    said = refusal(("max_model_len", 90_000))
    assert "workloads[0].max_model_len: a replica needs" in said
    assert "14063 MiB of one context of 90000 tokens" in said
    assert "write 73600 or less" in said
    assert planned(written(("max_model_len", 73_600))).deployments
    assert "write 73600 or less" in refusal(("max_model_len", 73_616))


def test_weights_and_context_are_divided_among_the_gpus_of_a_replica() -> None:
    one, two = (
        model_memory(
            stack_file.VllmWorkload.model_validate_json(
                json.dumps(STACK["workloads"][0] | {"tensor_parallel": gpus})
            )
        )
        for gpus in (1, 2)
    )
    assert two.weights_mib == one.weights_mib // 2
    assert two.context_mib == one.context_mib // 2


@pytest.mark.parametrize(
    ("text", "count"), [("12.25B", 12.25e9), ("500M", 5e8), ("0.5B", 5e8), ("405B", 405e9)]
)
def test_parameters_are_counted_in_millions_or_billions(text: str, count: float) -> None:
    assert parameters(text) == count


def test_a_17th_replica_stays_pending_which_is_noted_and_not_awaited() -> None:
    (one,) = planned(written(("replicas", 17))).deployments
    assert (one.runs, one.pending, one.awaited) == (16, 1, False)
    assert any(
        "17 nvidia.com/gpu are asked for and pool h100-partition-3g offers 16 at most, so 1 "
        "replica stays Pending, and `pulumi up` does not wait" in note
        for note in noted(("replicas", 17))
    )


def test_workloads_of_one_resource_are_counted_together() -> None:
    raw = written(("replicas", 10))
    raw["workloads"].append(raw["workloads"][0] | {"name": "second", "replicas": 7})
    first, second = planned(raw).deployments
    assert (first.demanded, second.demanded, first.pending) == (17, 17, 1)
    assert not first.awaited
    assert not second.awaited


@pytest.mark.parametrize(
    ("cluster", "awaited"),
    [
        (None, True),
        ({"name": "c", "region": "us-east-1"}, False),
        (
            {
                "name": "c",
                "region": "us-east-1",
                "version": "1.34",
                "autoscaler": "cluster-autoscaler",
            },
            True,
        ),
    ],
    ids=["GKE", "EKS", "EKS with an autoscaler"],
)
def test_up_waits_for_nodes_that_an_autoscaler_brings(
    cluster: dict[str, Any] | None, awaited: bool
) -> None:
    raw = written(("replicas", 1), of=1)
    if cluster is not None:
        pool = {"name": "whole", "machine_type": "p4d.24xlarge", "nodes": {"min": 0, "max": 2}}
        raw |= {"cloud": "eks", "cluster": cluster, "node_pools": [pool]}
    (one,) = planned(raw).deployments
    assert one.awaited is awaited
    assert one.pending == 0


def test_nodes_of_queued_capacity_are_not_awaited() -> None:
    raw = written(("replicas", 1), of=1)
    raw["node_pools"][1]["capacity"] = {"mode": "queued", "max_run_hours": 2}
    raw["node_pools"][1]["zones"] = ["us-central1-a"]
    assert not planned(raw).deployments[0].awaited


def test_replicas_for_which_nodes_have_no_processor_or_memory_are_not_awaited() -> None:
    for change in (("requests", {"cpu": 20}), ("requests", {"memory": "180Gi"})):
        unlimited = (change, ("limits", {}))
        (one,) = planned(written(*unlimited)).deployments
        assert (one.runs, one.pending, one.awaited) == (10, 6, False)
        assert any("room for 10 of its 16 replicas" in n for n in noted(*unlimited))
    assert not any("room for" in note for note in noted())


TOKENS = {
    "of Hugging Face": "hf_" + "a1B2" * 8,
    "of OpenAI's API": "sk-proj-" + "a1B2" * 8,
    "of GitHub": "ghp_" + "a1B2" * 9,
    "of NVIDIA's API": "nvapi-" + "a1B2" * 8,
    "of AWS": "AKIA" + "A1B2" * 4,
    "of Google": "AIza" + "a1B2" * 9,
    "in JWT form": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
    "in PEM form": "-----BEGIN RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize(
    "at", ["env", "extra_args", "model.revision", "served_name", "service.annotations"]
)
def test_a_token_is_refused_in_every_text_and_never_repeated(kind: str, at: str) -> None:
    token = TOKENS[kind]
    value: Any = {
        "env": {"X": token},
        "extra_args": [f"--x={token}"],
        "service.annotations": {"x": token},
    }.get(at, token)
    changes = [("service", {})] if at.startswith("service") else []
    said = refusal(*changes, (at, value))
    assert f"looks like a token {kind}" in said
    assert token not in said


def test_names_that_only_begin_like_a_token_are_not_tokens() -> None:
    for text in (
        "hf_mistral",
        "sk-learn",
        "sk-learn-pipelines-of-the-team",
        "task-queue-0123456789-of-the-team",
        "shelf_0123456789abcdefghij",
    ):
        assert planned(written(("served_name", text), ("env", {"X": f"a {text}"})))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            [("resource", "mig-3g.40gb")],
            "resource: nodes of h100-partition-3g offer no nvidia.com/mig-3g.40gb: GKE advertises "
            "partitions as nvidia.com/gpu; write gpu",
        ),
        ([("pool", "h100-partition-3")], "pool: no pool is named h100-partition-3; did you mean"),
        ([("image", "vllm/vllm-openai")], "image: vllm/vllm-openai is a moving tag"),
        ([("image", "vllm/vllm-openai:latest")], "add a tag other than latest, or a digest"),
        ([("image", "localhost:5000/vllm")], "image: localhost:5000/vllm is a moving tag"),
        (
            [("namespace", "kube-system")],
            "namespace: kube-system is reserved for Kubernetes itself",
        ),
        (
            [("namespace", "slicewright-system")],
            "namespace: slicewright-system is reserved for slicewright",
        ),
        ([("tensor_parallel", 2)], "tensor_parallel: 2 partitions of one pod cannot reach"),
        ([("requests.cpu", 25)], "requests.cpu: 25 is above the limit, 24; write 24 or less"),
        (
            [("requests.memory", "101Gi")],
            "requests.memory: 101Gi is above the limit, 100Gi; write 100Gi or less",
        ),
        (
            [("requests.cpu", 208), ("limits.cpu", None)],
            "requests.cpu: 208 CPUs are never free on one a3-highgpu-8g, which has 208",
        ),
        (
            [("requests.memory", "1872Gi"), ("limits.memory", None)],
            "requests.memory: 1872Gi are never free on one a3-highgpu-8g, which has 1872Gi",
        ),
        ([("shared_memory", "100Gi")], "shared_memory: 100Gi counts as the pod's memory"),
        ([("extra_args", ["--dtype=half"])], "--dtype has a key of its own, which is checked; use"),
        ([("extra_args", ["--max_model_len=1"])], "extra_args[0]: --max-model-len has a key"),
        ([("extra_args", ["--port=80"])], "--port: the Service and the probes expect port 8000"),
        ([("extra_args", ["--api-key=k"])], "write secrets: {VLLM_API_KEY: {name: …, key: …}}"),
        ([("model.path", "a")], "model: has both name and path, but there is one model"),
        ([("model.name", None)], "model: has neither name nor path"),
        (
            [("model.name", None), ("model.path", "a")],
            "model.path: is a directory of the volume cache, which is new and empty",
        ),
        (
            [("model.name", None), ("model.path", "a"), ("cache", None)],
            "model.path: is a directory of the volume cache, and there is none",
        ),
        ([("env", {"VLLM_API_KEY": "x"})], "env.VLLM_API_KEY: is also in secrets"),
        (
            [("kind", "vlm")],
            'kind: "vlm" is not one of vllm, triton, container; did you mean vllm?',
        ),
        ([("kind", "tgi")], "is not one of vllm, triton, container; write vllm, triton, or cont"),
        ([("kind", None)], "kind: is missing; write kind: vllm, triton, or container"),
        ([("run_as_user", 0)], "run_as_user: must be at least 1, but is 0: 0 is root"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_their_key(
    changes: list[tuple[str, Any]], said: str
) -> None:
    assert said in refusal(*changes)


def test_a_revision_is_of_a_model_on_the_hub() -> None:
    assert "model.revision: applies to models on the Hugging Face Hub" in refusal(
        ("model.revision", "main"), of=1
    )


def test_a_replica_has_no_more_gpus_than_a_node() -> None:
    said = refusal(("tensor_parallel", 4), of=1)
    assert "tensor_parallel: a pod runs on one node, and nodes of whole have 2 GPUs" in said


def test_two_workloads_of_one_name_are_refused_whatever_their_kind() -> None:
    raw = written()
    raw["workloads"] *= 2
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    assert str(refused.value).count("llm-deployment is listed 2 times") == 2


def test_workloads_of_a_namespace_agree_whether_it_is_created() -> None:
    raw = written()
    raw["workloads"].append(raw["workloads"][0] | {"name": "second", "create_namespace": False})
    with pytest.raises(
        stack_file.SpecError, match=r"workloads\[0\] has true for the same namespace, ai"
    ):
        planned(raw)


def shared(replicas: int, percent: int) -> dict[str, Any]:
    """On an existing cluster: a partition of 19 GB for four pods."""
    server = STACK["workloads"][0] | {
        "pool": "a",
        "replicas": replicas,
        "gpu_memory_percent": percent,
        "model": {"name": "m", "parameters": "500M"},
        "max_model_len": 1024,
        "resource": "mig-3g.20gb",
    }
    return {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "A100-40", "count": 1},
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "config": "all-balanced"},
                "sharing": {
                    "mode": "time-slicing",
                    "replicas": {"mig-3g.20gb": 4},
                    "rename_by_default": True,
                },
            }
        ],
        "workloads": [server],
    }


def test_servers_that_share_a_partition_share_its_memory() -> None:
    assert planned(shared(4, 25)).deployments[0].resource == "nvidia.com/mig-3g.20gb.shared"
    assert planned(shared(1, 90)).deployments
    with pytest.raises(stack_file.SpecError) as refused:
        planned(shared(4, 26))
    assert "4 replicas may share one nvidia.com/mig-3g.20gb.shared" in str(refused.value)
    assert "write 25 or less" in str(refused.value)


def test_a_workload_must_name_its_resource_if_nodes_offer_several() -> None:
    raw = shared(1, 90)
    del raw["workloads"][0]["resource"]
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    assert "resource: is required: nodes of a offer several resources" in str(refused.value)
    assert "write one of mig-1g.5gb, mig-2g.10gb, mig-3g.20gb" in str(refused.value)


def test_gpus_shared_by_fractions_take_no_servers() -> None:
    raw = shared(1, 90)
    raw["node_pools"][0] |= {"sharing": "fractional", "partition": "none"}
    raw["fractional"] = {"provider": "hami"}
    with pytest.raises(stack_file.SpecError, match="shared by fractions, and workloads of kind"):
        planned(raw)


def test_a_volume_for_one_node_is_refused_for_replicas_on_several_nodes() -> None:
    once = {"size": "10Gi", "access_mode": "ReadWriteOnce"}
    assert planned(written(("cache", once))).deployments  # one node
    raw = written(("cache", once), ("model.name", "m"), ("model.path", None), of=1)
    with pytest.raises(stack_file.SpecError, match="such a volume is on one node at a time"):
        planned(raw)


def test_downloads_are_counted_for_workloads_without_a_cache() -> None:
    assert any(
        "some 392 GB together at every start: write cache" in n for n in noted(("cache", None))
    )
    assert not any("downloads" in note for note in noted())


def test_a_load_balancer_without_a_key_for_the_api_is_noted() -> None:
    open_to_all = [("service", {"type": "LoadBalancer"})]
    assert not any("whoever reaches" in note for note in noted(*open_to_all))
    assert any("whoever reaches" in note for note in noted(*open_to_all, ("secrets", {})))


def test_a_note_says_which_ports_tritons_load_balancer_opens() -> None:
    def opened(*changes: tuple[str, Any]) -> list[str]:
        found = plan.notes(planned(written(*changes, stack=TRITON)))
        return [note for note in found if "whoever reaches" in note]

    assert not opened(("service", {}))
    (note,) = opened(("service", {"type": "LoadBalancer"}))
    assert "read its metrics on port 8002, because Triton asks for no key" in note
    (note,) = opened(("service", {"type": "LoadBalancer"}), ("model_control", "explicit"))
    assert "may load and unload its models" in note


def test_a_note_says_which_memory_is_not_compared() -> None:
    assert any(
        "not compared with the partition: for that, write model.attention" in note
        for note in noted(("model.attention", None))
    )
    assert not any("not compared" in note for note in noted())


def test_nothing_is_concluded_from_a_key_that_is_wrong_itself() -> None:
    assert refusal(("gpu_memory_percent", "much")).count("\n") == 1
    assert refusal(("model.parameters", "many")).count("\n") == 1
    assert refusal(("pool", 3)).count("\n") == 1


def test_eight_tritons_find_a_slice_of_two_partitions_and_a_ninth_does_not() -> None:  # S4-63
    (one,) = planned(written(stack=TRITON)).deployments
    assert (one.resource, one.profiles) == ("nvidia.com/mig-1g.5gb", ("1g.5gb",))
    assert (one.offered, one.runs, one.pending, one.awaited) == (8, 8, 0, True)
    (one,) = planned(written(("replicas", 9), stack=TRITON)).deployments
    assert (one.runs, one.pending, one.awaited) == (8, 1, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            [("gpu_memory", "1217Mi")],
            "gpu_memory: 4 replicas may share one nvidia.com/mig-1g.5gb, and together they take "
            "4868 MiB of 4864; write 1216Mi or less",
        ),
        (
            [("gpu_memory", "5Gi")],
            "gpu_memory: a 1g.5gb of A100-40 has 4864 MiB; choose a pool with partitions of "
            "1g.10gb or more",
        ),
        (
            [("load_models", ["m"])],
            "load_models: with model_control: none all models of the directory are loaded",
        ),
        (
            [("model_control", "explicit"), ("load_models", ["m", "../m"])],
            "load_models[1]: ../m names no model",
        ),
        (
            [("model_repository", {"server": "nfs", "path": "/a/../b"})],
            "model_repository.path: has '..'",
        ),
        ([("extra_args", ["--model-repository=/x"])], "use model_repository"),
        ([("extra_args", ["--http-port=80"])], "8001 and 8002 on every address; leave it out"),
        ([("model_repository", {"server": "nfs", "path": "models"})], "is not an absolute path"),
        ([("model_repository", {"server": "nfs", "paht": "/m"})], "did you mean path?"),
        ([("model_repository", None)], "model_repository: is missing"),
        ([("dtype", "auto")], "dtype: unknown key"),
        (
            [("namespace", "gpu-operator")],
            "namespace: gpu-operator is reserved for the GPU operator",
        ),
    ],
)
def test_triton_settings_that_cannot_work_are_refused_at_their_key(
    changes: list[tuple[str, Any]], said: str
) -> None:
    assert said in refusal(*changes, stack=TRITON)


def test_a_misspelled_kind_is_read_by_its_other_keys_so_that_they_are_checked_too() -> None:
    said = refusal(("kind", "tensorrt"), ("model_control", "some"), stack=TRITON)
    assert 'kind: "tensorrt" is not one of vllm, triton, container' in said
    assert 'model_control: "some" is not one of none, explicit, poll' in said


@pytest.mark.parametrize(
    ("changes", "of", "said"),
    [
        ([("health.port", "web")], 0, "health.port: no port is named web; write http or metrics"),
        ([("ports", {})], 0, "health.port: no port is named http; add ports: {http: 8000}"),
        ([("service", {})], 1, "service: needs a port"),
        ([("ports", {"a": 1, "b": 1})], 1, "ports.a: 1 is also listed under another name"),
        ([("ports", {"HTTP": 1})], 1, "is not the name of a port"),
        ([("ports", {"http": 70_000})], 1, "must be at most 65535, but is 70000"),
        ([("gpus", 9)], 1, "gpus: a pod runs on one node, and nodes of whole have 8 GPUs"),
        ([("gpus", 2)], 0, "gpus: 2 partitions of one pod cannot reach each other's memory"),
        ([("gpu_memory", "5Gi")], 0, "gpu_memory: a 1g.5gb of A100-40 has 4864 MiB; choose"),
        ([("args", ["--token=hf_" + "a1B2" * 8])], 0, "looks like a token of Hugging Face"),
        ([("model", {})], 0, "model: unknown key"),
    ],
)
def test_container_settings_that_cannot_work_are_refused_at_their_key(
    changes: list[tuple[str, Any]], of: int, said: str
) -> None:
    assert said in refusal(*changes, of=of, stack=CONTAINER)


def test_every_cloud_has_workloads() -> None:
    for fleet in (STACK, TRITON, CONTAINER):
        found = planned(fleet)
        assert len(found.deployments) == 2
        assert not plan.unbuildable(found)


def test_an_unknown_kind_of_workload_reports_no_missing_keys() -> None:
    """Which keys it must have depends on the kind."""
    raw = copy.deepcopy(STACK)
    raw["workloads"] = [{"name": "web", "kind": "nginx", "pool": "h100-partition-3g"}]
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    assert "1 problem," in str(refused.value)
    assert 'kind: "nginx" is not one of vllm, triton, container' in str(refused.value)
