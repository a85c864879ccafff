"""A match of a held node counts only once a program has computed on its partitions.

NVML lists partitions that no program can use. So while the node has the startup taint, a match
waits for a proof of this boot, driver and set of devices. A node in service is never tested: its
tenants came after a proof, and the proof would disturb them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.occupancy import devices_of
from slicewright.node_agent.compute.prover import Devices
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


class Memory(Protocol):
    """Remembers the last proven key in all containers of the agent's pod."""

    def load(self) -> str: ...

    def save(self, key: str) -> None: ...


@dataclass
class ComputeGate:
    """Proves a held node that otherwise matches, and judges it by the proof."""

    prove: Callable[[Devices], Proof]
    memory: Memory
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
    ) -> Verdict:
        """Returns the verdict, or the one of the proof if the proof is no success.

        now: the monotonic clock. A proof may take minutes.
        """
        if verdict.verdict != "Match" or not node.held or _is_shared_by_mps(desired):
            return verdict
        key = key_of(observation, desired, node)
        if key == self.memory.load():
            return verdict
        if key != self._key or now() >= self._next_at:
            self._prove(key, observation, now)
        return _judged(verdict, self._proof, observation, desired)

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
            self.memory.save(key)


def key_of(observation: Observation, desired: Desired, node: NodeState) -> str:
    """A digest of everything that a proof depends on."""
    uuids = sorted(uuid for uuids in devices_of(observation).values() for uuid in uuids)
    facts = (node.uid, node.boot_id, observation.driver or "", desired.pool, *uuids)
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _is_shared_by_mps(desired: Desired) -> bool:
    """True if an MPS server owns the GPUs: a program of another user would block its clients."""
    return any(sharing.strategy == "mps" for sharing in desired.sharing)


def _judged(
    verdict: Verdict, proof: Proof | None, observation: Observation, desired: Desired
) -> Verdict:
    if proof is None or proof.outcome == "computed":
        return verdict
    checks = (*verdict.checks, *_checks(proof, observation))
    return judge(desired, checks, verdict.instances, on_host=False)


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
