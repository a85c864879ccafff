"""A match of a held node counts only once a program has computed on its partitions.

NVML lists partitions that no program can use. So while the node has the startup taint, a match
waits for a proof of this boot, driver, layout and set of devices. A node in service is never
tested, nor is a held node whose GPUs pods request: the proof would disturb them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.occupancy import devices_of
from slicewright.node_agent.compute.prover import Devices
from slicewright.node_agent.compute.record import record_of
from slicewright.node_agent.compute.results import DeviceResult
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.judge import judge
from slicewright.telemetry import log

FAILED: Final = "PartitionDoesNotCompute"
UNTRIED: Final = "ComputeUntried"
_RETRY_FAILED_S: Final = 300.0
_RETRY_UNTRIED_S: Final = 60.0
_EXPECTED: Final = "CUDA to compute"
_REASONS: Final[Mapping[int, str]] = {
    46: "ComputeModeWrong",  # CUDA_ERROR_DEVICE_UNAVAILABLE
    802: "FabricNotReady",  # CUDA_ERROR_SYSTEM_NOT_READY
    919: "FabricNotReady",  # CUDA_ERROR_FABRIC_NOT_READY
}
"""Codes of CUDA -> the reason that NVML's own facts have, with its advice. On A100 and on GPUs in
MIG mode only CUDA shows that the fabric is missing.
"""
_OUTDATED_CONTAINER: Final = frozenset(
    {
        signs.NO_DEVICE,
        803,  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        999,  # CUDA_ERROR_UNKNOWN: among others, no access to /dev/nvidia-uvm
    }
)
"""Codes of CUDA in a container that is older than a device node or the driver's library."""


class Memory(Protocol):
    """Remembers the record of the last success, in all containers of the agent's pod."""

    def load(self) -> Mapping[str, Any]: ...

    def save(self, record: Mapping[str, Any]) -> None: ...


@dataclass
class ComputeGate:
    """Proves a held node that otherwise matches, and judges it by the proof."""

    prove: Callable[[Devices], Proof]
    memory: Memory
    record: Mapping[str, Any] = field(default_factory=dict)
    """The proof of the state that `consider` judged last. Empty: it is not proven. If that state
    does not match, the last success.
    """
    outdated_container: bool = False
    """True if CUDA refuses this container, and perhaps no new one."""
    _key: str = ""
    """The key of `_proof`."""
    _proof: Proof | None = None
    _next_at: float = field(default=float("-inf"))

    def consider(
        self,
        verdict: Verdict,
        observation: Observation,
        desired: Desired,
        node: NodeState,
        now: Callable[[], float],
        *,
        node_is_fresh: bool = True,
    ) -> Verdict:
        """Returns the verdict, or the one of the proof if the proof is no success.

        now: the monotonic clock. A proof may take minutes. node_is_fresh: True if the Node was read
        in this turn.
        """
        self.record, self.outdated_container = {}, False
        if verdict.verdict != "Match":
            # The next agent's pod may need it: a device plugin that restarts is a mismatch, too.
            self.record = self.memory.load()
            return verdict
        if _is_shared_by_mps(desired):
            return verdict
        key = key_of(observation, desired, node)
        if (remembered := self.memory.load()).get("key") == key:
            self.record = remembered
            return verdict
        if not awaits_proof(node):
            return verdict
        if obstacle := _obstacle(node, node_is_fresh=node_is_fresh):
            return judge(desired, (*verdict.checks, obstacle), verdict.instances, on_host=False)
        if key != self._key or now() >= self._next_at:
            self._prove(key, observation, now)
        return self._judged(verdict, observation, desired)

    def recall(self, record: Mapping[str, Any]) -> None:
        """Remembers the proof in the report of the pod's predecessor."""
        if record.get("outcome") == "computed" and not self.memory.load():
            self.memory.save(record)

    def _prove(self, key: str, observation: Observation, now: Callable[[], float]) -> None:
        proof = self.prove(devices_of(observation))
        log.info(
            "compute proof",
            outcome=proof.outcome,
            devices=len(proof.devices),
            seconds=proof.seconds,
        )
        self._key, self._proof = key, proof
        wait_s = _RETRY_FAILED_S if proof.outcome == "failed" else _RETRY_UNTRIED_S
        self._next_at = now() + wait_s
        if proof.outcome == "computed":
            self.memory.save(record_of(proof, key))

    def _judged(self, verdict: Verdict, observation: Observation, desired: Desired) -> Verdict:
        assert self._proof is not None
        proof = self._proof
        self.record = record_of(proof, self._key)
        if proof.outcome == "computed":
            return verdict
        self.outdated_container = any(_looks_outdated(device) for device in proof.devices)
        checks = (*verdict.checks, *_checks(proof, observation))
        return judge(desired, checks, verdict.instances, on_host=False)


def key_of(observation: Observation, desired: Desired, node: NodeState) -> str:
    """A digest of everything that a proof depends on. Sharing is not part of it: another number of
    replicas changes no partition, and pods may run on the node meanwhile.
    """
    uuids = sorted(uuid for uuids in devices_of(observation).values() for uuid in uuids)
    facts = (
        *(node.uid, node.boot_id, observation.driver or ""),
        *(desired.pool, _layout_text(desired)),
        *uuids,
    )
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]


def _layout_text(desired: Desired) -> str:
    gpus = sorted((str(gpu.index), gpu.mig, sorted(gpu.instances.items())) for gpu in desired.gpus)
    return json.dumps(gpus)


def awaits_proof(node: NodeState) -> bool:
    """True if the node may not serve pods before it is proven. Without the startup taint, that is
    a node that has booted since its verification: the controller is about to taint it.
    """
    return node.held or node.verified_boot not in ("", node.boot_id)


def _obstacle(node: NodeState, *, node_is_fresh: bool) -> Check | None:
    """Returns why nothing may be computed on the node now, or None."""
    if not node_is_fresh:
        why = "the API server has not shown the Node in this turn"
    elif not node.held:
        why = "the node has booted since it was verified, and has no startup taint yet"
    elif node.gpu_pods:
        why = f"pods on the node request its GPUs (number of pods: {node.gpu_pods})"
    else:
        return None
    return Check(reason=UNTRIED, where="node", expected=_EXPECTED, observed=why)


def _is_shared_by_mps(desired: Desired) -> bool:
    """True if an MPS server owns the GPUs: a program of another user would block its clients."""
    return any(sharing.strategy == "mps" for sharing in desired.sharing)


def _looks_outdated(device: DeviceResult) -> bool:
    if device.failure is None:
        return False
    return (
        device.failure.code in _OUTDATED_CONTAINER or device.failure.name == signs.LIBRARY_MISSING
    )


def _checks(proof: Proof, observation: Observation) -> Iterator[Check]:
    """A check per device that did not compute; of a proof without a device a single one."""
    indexes = {gpu.uuid: gpu.index for gpu in observation.gpus}
    for gpu in proof.gpus:
        for device in gpu.devices:
            if device.failure:
                yield _check(device, f"GPU {indexes.get(gpu.uuid, '?')}")
    if proof.unexpected:
        yield Check(
            reason=FAILED,
            where="node",
            expected=_EXPECTED,
            observed=f"CUDA shows devices that were not requested: {', '.join(proof.unexpected)}",
        )
    if not proof.devices:
        yield Check(reason=UNTRIED, where="node", expected=_EXPECTED, observed="no device")


def _check(device: DeviceResult, where: str) -> Check:
    assert device.failure is not None
    sign, detail = device.failure.sign, device.failure.detail
    # Only a failure of one partition names it: other failures are equal, and share a text.
    name = f"{device.uuid}: " if sign.scope == "partition" else ""
    reason = FAILED if device.outcome == "failed" else UNTRIED
    return Check(
        reason=_REASONS.get(sign.code or 0, reason),
        where=where,
        expected=_EXPECTED,
        observed=f"{name}{sign.title} in {device.failure.step} ({detail or sign.cause})",
    )
