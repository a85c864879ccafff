"""The pods that prove nodes, listed only while there may be one."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.proof_pod import ProofPod


class ProofPods:
    """Lists the pods while a node waits for one, and until they are deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # An earlier process may have created some.
        self._may_exist = True

    def current(self, pools: Sequence[Pool], held: Sequence[str]) -> dict[str, ProofPod]:
        """Returns node -> its pod. Raises ApiError or Unreachable.

        held: the nodes that wait for a proof.
        """
        if not any(pool.proof_pod for pool in pools) or not (held or self._may_exist):
            return {}
        proof_pods = self._cluster.proof_pods()
        self._may_exist = bool(proof_pods)
        return proof_pods
