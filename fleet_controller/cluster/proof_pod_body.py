"""The pod that proves a node, as the API server takes it. Pure."""

from __future__ import annotations

from typing import Any, Final

from slicewright.apis.names import API_VERSION, NAMESPACE, POOL_KIND
from slicewright.fleet_controller.nodes.pod_proof import TIME_LIMIT_S, CreateProofPod
from slicewright.fleet_controller.objects.proof_pod import KEY_ANNOTATION, NODE_ANNOTATION

_LABELS: Final = {
    "app.kubernetes.io/name": "pod-proof",
    "app.kubernetes.io/part-of": "slicewright",
}
_KEEPS_NO_NODE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_MESSAGE_FILE: Final = "/dev/termination-log"
"""The kubelet's default terminationMessagePath, which is writable in a read-only container."""
_USER: Final = 65532


def proof_pod_body(action: CreateProofPod) -> dict[str, Any]:
    """Each device has a container of its own: NVIDIA's plugin sets one variable for a container's
    devices, which two resources would overwrite (NVIDIA/k8s-device-plugin #728).

    The pod chooses its node by an affinity, as pods of DaemonSets do. With `spec.nodeName` it would
    go past the scheduler.
    """
    settings = action.settings
    owner = {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "name": action.pool,
        "uid": action.pool_uid,
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": action.pod,
            "namespace": NAMESPACE,
            "labels": dict(_LABELS),
            "annotations": {
                NODE_ANNOTATION: action.node,
                KEY_ANNOTATION: action.key,
                _KEEPS_NO_NODE: "true",
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": int(TIME_LIMIT_S),
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "affinity": {"nodeAffinity": _only_on(action.node)},
            "tolerations": [dict(toleration) for toleration in settings.tolerations],
            "imagePullSecrets": [{"name": secret} for secret in settings.pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                _container(action, index, *requested)
                for index, requested in enumerate(settings.devices)
            ],
            "volumes": [{"name": "code", "configMap": {"name": settings.code}}],
        },
    }


def _only_on(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [field]}]
        }
    }


def _container(action: CreateProofPod, index: int, resource: str, device: str) -> dict[str, Any]:
    settings = action.settings
    return {
        "name": f"prove-{index}",
        "image": settings.image,
        "command": [*settings.command, "--allotted", device, "--message", _MESSAGE_FILE],
        "env": [
            {"name": name, "value": value} for name, value in sorted(settings.environment.items())
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "512Mi", resource: "1"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": _MESSAGE_FILE,
        "volumeMounts": [{"name": "code", "mountPath": settings.code_directory, "readOnly": True}],
    }
