"""Decisions that are required before a stack is destroyed, with instructions, for a report.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slicewright.teardown.inventory import Inventory
from slicewright.teardown.report import Report
from slicewright.teardown.subject import State


def obstacles_of(state: State, stack: str) -> Sequence[str]:
    """Obstacles that the state shows."""
    return [
        *(
            f"{urn} is protected in Pulumi's state; to allow its deletion: pulumi state unprotect "
            f"--stack {stack} '{urn}'"
            for urn in state.protected
        ),
        *(
            f"{urn}: deletion protection is on; write deletion_protection: false in the stack "
            "file and run `pulumi up`"
            for urn in state.guarded
        ),
        *(
            f"the creation of {urn} was interrupted: it may exist in the cloud, but Pulumi would "
            f"not delete it; adopt it with: slicewright recover --stack {stack} (if it does not "
            "exist in the cloud: pulumi refresh --clear-pending-creates)"
            for urn in state.pending
        ),
    ]


def without_kubeconfig(report: Report, state: State) -> Report:
    """Reports that the cluster cannot be examined or drained, an obstacle if that is yet to do."""
    if not state.hidden_kubeconfig:
        # Pulumi deletes the provider after all objects in the cluster, and before the cluster.
        return replace(
            report,
            inventory_unknown="Pulumi's state has no Kubernetes provider to inspect it with",
        )
    why = "the kubeconfig in Pulumi's state is encrypted"
    return replace(
        report,
        inventory_unknown=why,
        obstacles=[
            *report.obstacles,
            f"{why}, so the cluster cannot be inspected; delete its load balancers and claims "
            "yourself, and pass --unreachable: the cluster is then not drained, and its leftovers "
            "are deleted in the cloud",
        ],
    )


def without_answer(report: Report, problem: Exception) -> Report:
    return replace(
        report,
        inventory_unknown=str(problem),
        obstacles=[
            *report.obstacles,
            f"the cluster does not answer ({problem}); connect to its network or renew the "
            "credentials, or pass --unreachable: the cluster is then not drained, and its "
            "leftovers are deleted in the cloud",
        ],
    )


def retained_data(inventory: Inventory) -> Sequence[str]:
    volumes = [volume.name for volume in inventory.retained]
    named = [
        *([f"the disks of {', '.join(volumes)}"] if volumes else []),
        *(
            [f"the snapshots of {', '.join(inventory.retained_snapshots)}"]
            if inventory.retained_snapshots
            else []
        ),
    ]
    if not named:
        return []
    return [
        f"{' and '.join(named)} have the policy Retain; pass --disks delete, or --disks keep to "
        "leave them in the account"
    ]


def about_waiting(pools: Sequence[str]) -> str:
    return (
        f"no fleet controller is running, but GPUPools {', '.join(pools)} wait for one to remove "
        "their labels from the nodes, and `pulumi destroy` waits for them until its timeout; "
        "start the "
        "controller (kubectl --namespace slicewright-system get deployment fleet-controller), or "
        "keep the labels: kubectl patch gpupool {pools[0]} --type=merge "
        '--patch \'{"metadata":{"finalizers":null}}\''
    )
