"""A match of a held node waits for a proof; a node in service is left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredSharing
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.proof_memory import ProofMemory
from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.judgement import GpuResult, Proof
from slicewright.node_agent.compute.results import DeviceResult, Failure
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict.compute_gate import ComputeGate, key_of
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import verify
from tests.properties import examples

LAUNCH_FAILED = Failure(step="cuCtxSynchronize", code=719, name="CUDA_ERROR_LAUNCH_FAILED")
IN_USE = Failure(step="start", name=signs.IN_USE, detail="GPU 1 is in use by process 77")


@dataclass
class Bench:
    """A gate whose proofs give `failures` by UUID."""

    desired: Desired
    observation: Observation
    node: NodeState
    memory: ProofMemory
    failures: dict[str, Failure] = field(default_factory=dict)
    proofs: int = 0
    time: float = 1000.0

    def __post_init__(self) -> None:
        self.gate = ComputeGate(prove=self._prove, memory=self.memory)

    def _prove(self, devices: Mapping[str, Sequence[str]]) -> Proof:
        self.proofs += 1
        return Proof(
            gpus=tuple(
                GpuResult(
                    uuid=gpu,
                    devices=tuple(
                        DeviceResult(uuid=uuid, failure=self.failures.get(uuid)) for uuid in uuids
                    ),
                )
                for gpu, uuids in devices.items()
            )
        )

    def verdict(self, *, fresh: bool = True) -> Verdict:
        judged = verify(self.desired, self.observation, self.node)
        return self.gate.consider(
            judged,
            self.observation,
            self.desired,
            self.node,
            lambda: self.time,
            node_is_fresh=fresh,
        )


@pytest.fixture
def bench(desired: Desired, right: Observation, node: NodeState, tmp_path: Path) -> Bench:
    return Bench(desired, right, replace(node, held=True), ProofMemory(tmp_path))


def test_a_held_node_is_proven_once(bench: Bench) -> None:
    assert [bench.verdict().reason for _ in range(3)] == ["PartitionsMatch"] * 3
    assert bench.proofs == 1


def test_a_node_in_service_is_not_tested(bench: Bench) -> None:
    bench.node = replace(bench.node, held=False)
    bench.failures = {"MIG-1": LAUNCH_FAILED}
    assert (bench.verdict().verdict, bench.proofs) == ("Match", 0)


def test_a_node_that_does_not_match_is_not_tested(bench: Bench) -> None:
    bench.observation = replace(bench.observation, gpus=bench.observation.gpus[:1])
    assert (bench.verdict().reason, bench.proofs) == ("WrongGpuCount", 0)


def test_a_partition_that_does_not_compute_is_a_mismatch_with_cudas_name(bench: Bench) -> None:
    bench.failures = {"MIG-2": LAUNCH_FAILED}
    verdict = bench.verdict()
    assert (verdict.verdict, verdict.reason) == ("Mismatch", "PartitionDoesNotCompute")
    # Both GPUs of the fixture have a partition of this name.
    assert verdict.message.startswith(
        "GPUs 0-1 wanted CUDA to compute, found MIG-2: CUDA_ERROR_LAUNCH_FAILED (719) in "
        "cuCtxSynchronize (an exception on the GPU, mostly with an Xid)"
    )
    assert "docs/reference/reasons.md" in verdict.message


def test_a_proof_that_could_not_be_tried_is_unknown(bench: Bench) -> None:
    bench.failures = dict.fromkeys(("MIG-1", "MIG-2"), IN_USE)
    verdict = bench.verdict()
    assert (verdict.verdict, verdict.reason) == ("Unknown", "ComputeUntried")
    assert "GPU 1 is in use by process 77" in verdict.message


@pytest.mark.parametrize(("failure", "pause_s"), [(LAUNCH_FAILED, 300.0), (IN_USE, 60.0)])
def test_it_is_tried_again_after_a_pause_and_a_success_clears(
    failure: Failure, pause_s: float, bench: Bench
) -> None:
    bench.failures = {"MIG-1": failure}
    first = bench.verdict()
    bench.failures = {}
    bench.time += pause_s - 1
    assert bench.verdict() == first
    assert bench.proofs == 1
    bench.time += 1
    assert (bench.verdict().verdict, bench.proofs) == ("Match", 2)


def test_a_later_container_remembers_the_proof(bench: Bench, tmp_path: Path) -> None:
    bench.verdict()
    later = Bench(bench.desired, bench.observation, bench.node, ProofMemory(tmp_path))
    assert (later.verdict().verdict, later.proofs) == ("Match", 0)


@pytest.mark.parametrize("change", ["boot", "driver", "uuid", "machine"])
def test_it_is_proven_again_after_a_change(change: str, bench: Bench) -> None:
    bench.verdict()
    gpu = bench.observation.gpus[1]
    other = replace(gpu.devices[0], uuid="MIG-new")
    if change == "boot":
        bench.node = replace(bench.node, boot_id="b2")
    elif change == "machine":
        bench.node = replace(bench.node, uid="u2")
    elif change == "driver":
        bench.observation = replace(bench.observation, driver="580.65.06")
    else:
        changed = replace(gpu, devices=(other, *gpu.devices[1:]))
        bench.observation = replace(bench.observation, gpus=(bench.observation.gpus[0], changed))
    bench.verdict()
    assert bench.proofs == 2


def test_gpus_that_mps_shares_are_left_to_their_server(bench: Bench) -> None:
    sharing = DesiredSharing(resource="nvidia.com/gpu", strategy="mps", replicas=2)
    bench.node = replace(
        bench.node, capacity={"nvidia.com/gpu": 8}, allocatable={"nvidia.com/gpu": 8}
    )
    bench.desired = replace(bench.desired, sharing=(sharing,), resources={"nvidia.com/gpu": 8})
    bench.verdict()
    assert bench.proofs == 0


def test_the_key_does_not_depend_on_the_order_of_devices(bench: Bench) -> None:
    turned = replace(bench.observation, gpus=tuple(reversed(bench.observation.gpus)))
    assert key_of(turned, bench.desired, bench.node) == key_of(
        bench.observation, bench.desired, bench.node
    )


def test_memory_without_a_volume_lasts_for_the_process(tmp_path: Path) -> None:
    memory = ProofMemory(tmp_path / "missing")
    memory.save({"key": "a"})
    assert memory.load() == {"key": "a"}
    assert ProofMemory(tmp_path / "missing").load() == {}


def test_memory_that_cannot_be_read_or_written_is_empty(tmp_path: Path) -> None:
    (tmp_path / "proven").mkdir()
    memory = ProofMemory(tmp_path)
    assert memory.load() == {}
    memory.save({"key": "a"})
    assert memory.load() == {"key": "a"}


@pytest.mark.parametrize("content", ["", "a", "[1]", '{"key": ', "[" * 50_000])
def test_a_damaged_memory_is_empty(content: str, tmp_path: Path) -> None:
    (tmp_path / "proven").write_text(content)
    assert ProofMemory(tmp_path).load() == {}


def test_nothing_is_computed_while_pods_request_gpus_of_a_held_node(bench: Bench) -> None:
    bench.node = replace(bench.node, gpu_pods="2")
    verdict = bench.verdict()
    assert (verdict.verdict, verdict.reason, bench.proofs) == ("Unknown", "ComputeUntried", 0)
    assert "pods on the node request its GPUs (number of pods: 2)" in verdict.message
    bench.node = replace(bench.node, gpu_pods="")
    assert (bench.verdict().verdict, bench.proofs) == ("Match", 1)


def test_a_proven_node_with_pods_keeps_its_match(bench: Bench) -> None:
    bench.verdict()
    bench.node = replace(bench.node, gpu_pods="2")
    assert (bench.verdict().verdict, bench.proofs) == ("Match", 1)


def test_a_node_that_has_booted_waits_for_its_taint(bench: Bench) -> None:
    bench.node = replace(bench.node, held=False, verified_boot="earlier")
    verdict = bench.verdict()
    assert (verdict.verdict, verdict.reason, bench.proofs) == ("Unknown", "ComputeUntried", 0)
    bench.node = replace(bench.node, held=True)
    assert (bench.verdict().verdict, bench.proofs) == ("Match", 1)


def test_a_node_that_was_read_earlier_may_have_pods_by_now(bench: Bench) -> None:
    assert (bench.verdict(fresh=False).reason, bench.proofs) == ("ComputeUntried", 0)


def test_another_layout_of_the_same_partitions_is_proven_again(bench: Bench) -> None:
    before = key_of(bench.observation, bench.desired, bench.node)
    gpu, *others = bench.desired.gpus
    changed = replace(gpu, instances={**gpu.instances, "1c.3g.40gb": 1})
    bench.desired = replace(bench.desired, gpus=(changed, *others))
    assert key_of(bench.observation, bench.desired, bench.node) != before


def test_another_sharing_of_proven_partitions_needs_no_proof(bench: Bench) -> None:
    """Pods on the node would keep it from being proven, and it would be held until they end."""
    bench.verdict()
    before = key_of(bench.observation, bench.desired, bench.node)
    resource = next(iter(bench.desired.resources))
    sharing = DesiredSharing(resource=resource, strategy="time-slicing", replicas=3)
    bench.desired = replace(bench.desired, sharing=(sharing,))
    assert key_of(bench.observation, bench.desired, bench.node) == before


def test_the_record_of_the_last_success_outlives_a_mismatch(bench: Bench) -> None:
    """The report is the only memory of the next agent's pod."""
    bench.verdict()
    record = bench.gate.record
    bench.node = replace(bench.node, allocatable={})
    assert bench.verdict().verdict != "Match"
    assert bench.gate.record == record != {}


def test_the_record_names_failing_devices_first(bench: Bench) -> None:
    bench.failures = {"MIG-2": LAUNCH_FAILED}
    bench.verdict()
    record = bench.gate.record
    assert (record["outcome"], record["deviceCount"]) == ("failed", 4)
    assert [device["uuid"] for device in record["devices"]] == ["MIG-2", "MIG-2", "MIG-1", "MIG-1"]
    assert record["devices"][0]["error"] == "CUDA_ERROR_LAUNCH_FAILED (719)"


def test_the_record_belongs_to_the_judged_state_only(bench: Bench) -> None:
    bench.verdict()
    assert bench.gate.record["outcome"] == "computed"
    bench.node = replace(bench.node, boot_id="b2", held=False)
    bench.verdict()
    assert bench.gate.record == {}


def test_the_report_of_an_earlier_pod_proves_the_same_state_only(
    bench: Bench, tmp_path: Path
) -> None:
    bench.verdict()
    record = bench.gate.record
    later = Bench(bench.desired, bench.observation, bench.node, ProofMemory(tmp_path / "new"))
    later.gate.recall(record)
    assert (later.verdict().verdict, later.proofs) == ("Match", 0)
    later.node = replace(later.node, boot_id="b2")
    assert (later.verdict().verdict, later.proofs) == ("Match", 1)


def test_a_failure_in_the_report_of_an_earlier_pod_proves_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    bench.failures = {"MIG-2": LAUNCH_FAILED}
    bench.verdict()
    later = Bench(bench.desired, bench.observation, bench.node, ProofMemory(tmp_path / "new"))
    later.gate.recall(bench.gate.record)
    assert (later.verdict().verdict, later.proofs) == ("Match", 1)


OUTDATED = [
    Failure(step="cuInit", code=999, name="CUDA_ERROR_UNKNOWN"),
    Failure(step="cuInit", code=100, name="CUDA_ERROR_NO_DEVICE"),
    Failure(step="cuInit", code=803, name="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    Failure(step="dlopen", name=signs.LIBRARY_MISSING),
]


@pytest.mark.parametrize("failure", OUTDATED, ids=lambda failure: failure.name)
def test_an_error_of_an_older_container_is_one(failure: Failure, bench: Bench) -> None:
    bench.failures = {"MIG-1": failure}
    bench.verdict()
    assert bench.gate.outdated_container
    bench.failures = {"MIG-1": LAUNCH_FAILED}
    bench.time += 300
    bench.verdict()
    assert not bench.gate.outdated_container


@given(
    held=st.booleans(),
    gpu_pods=st.sampled_from(["", "1"]),
    fresh=st.booleans(),
    verified_boot=st.sampled_from(["", "b1", "earlier"]),
    outcomes=st.lists(st.sampled_from([None, LAUNCH_FAILED, IN_USE]), min_size=2, max_size=2),
)
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_held_node_matches_without_a_proof_of_every_device(
    held: bool,
    gpu_pods: str,
    fresh: bool,
    verified_boot: str,
    outcomes: list[Failure | None],
    desired: Desired,
    right: Observation,
    node: NodeState,
) -> None:
    """And none computes that has pods, is in service, or was read earlier."""
    judged_node = replace(
        node, held=held, gpu_pods=gpu_pods, verified_boot=verified_boot, boot_id="b1"
    )
    failures = {
        uuid: failure for uuid, failure in zip(("MIG-1", "MIG-2"), outcomes, strict=True) if failure
    }
    bench = Bench(desired, right, judged_node, ProofMemory(Path("/missing")), failures)
    verdict = bench.verdict(fresh=fresh)
    may_compute = held and not gpu_pods and fresh
    assert bench.proofs == (1 if may_compute else 0)
    awaits = held or verified_boot == "earlier"
    assert (verdict.verdict == "Match") == (not awaits or (may_compute and not failures))
    if held and verdict.verdict == "Match":
        assert bench.gate.record["outcome"] == "computed"
        assert bench.gate.record["deviceCount"] == 4
