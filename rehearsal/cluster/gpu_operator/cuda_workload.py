"""The pod by which NVIDIA's validator checks CUDA: it ends Completed, and stays.

Its program, CUDA's vectorAdd, needs a real GPU; the stand-in initializes CUDA, and asks NVML for a
GPU instead of computing. So it fails where no program starts, as without Fabric Manager. Source:
NVIDIA/gpu-operator v26.7.0, cmd/nvidia-validator and manifests/workload-validation.yaml.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Final

from slicewright.kubeapi.client import Client, JsonObject, path_of

NAME: Final = "nvidia-cuda-validator"
PROGRAM: Final = "vectorAdd"
_VALIDATOR: Final = "nvidia-operator-validator"
"""The DaemonSet that has the pod's owner."""
_NO_DEVICE: Final = 100
"""CUDA_ERROR_NO_DEVICE: MIG mode is on, and mig-manager has not made a partition."""
_TRIES: Final = 60
_EVERY_S: Final = 1.0


class WorkloadFailed(Exception):
    """The message says how the pod is."""


def pod(daemonset: JsonObject, variables: Mapping[str, str]) -> JsonObject:
    """variables: those of the validator's container."""
    image = {
        "image": variables["VALIDATOR_IMAGE"],
        "imagePullPolicy": variables["VALIDATOR_IMAGE_PULL_POLICY"],
        "command": ["sh", "-c"],
        "securityContext": {"privileged": True, "runAsUser": 0},
    }
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    done = "echo cuda workload validation is successful"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{NAME}-",
            "namespace": variables["OPERATOR_NAMESPACE"],
            "labels": {"app": NAME, "app.kubernetes.io/managed-by": "gpu-operator"},
            # The ClusterPolicy. Not the DaemonSet: its controller would let go of a pod that does
            # not match its selector.
            "ownerReferences": daemonset["metadata"].get("ownerReferences") or [],
        },
        "spec": {
            "nodeName": variables["NODE_NAME"],
            "runtimeClassName": variables["VALIDATOR_RUNTIME_CLASS"],
            "serviceAccountName": _VALIDATOR,
            "restartPolicy": "OnFailure",
            "tolerations": daemonset["spec"]["template"]["spec"].get("tolerations") or [],
            "initContainers": [{"name": "cuda-validation", **image, "args": [PROGRAM], "env": env}],
            "containers": [{"name": NAME, **image, "args": [done]}],
        },
    }


def run(client: Client, variables: Mapping[str, str], sleep: Callable[[float], None]) -> None:
    """Makes the pod in place of the node's last one, and waits until it has completed.

    Raises WorkloadFailed, ApiError, Unreachable.
    """
    namespace, node = variables["OPERATOR_NAMESPACE"], variables["NODE_NAME"]
    daemonset = client.get(path_of("apps/v1", "daemonsets", _VALIDATOR, namespace))
    pods = path_of("v1", "pods", None, namespace)
    before = client.get(pods, labelSelector=f"app={NAME}", fieldSelector=f"spec.nodeName={node}")
    for old in before["items"]:
        client.delete(f"{pods}/{old['metadata']['name']}")
    made = client.create(pods, pod(daemonset, variables))
    path = f"{pods}/{made['metadata']['name']}"
    phase = ""
    for _ in range(_TRIES):
        phase = str(client.get(path)["status"].get("phase", ""))
        if phase == "Succeeded":
            return
        print(f"{made['metadata']['name']} is {phase}", flush=True)
        sleep(_EVERY_S)
    raise WorkloadFailed(f"pod {made['metadata']['name']} is {phase}")


def main() -> int:
    """`vectorAdd`: whether the driver that the runtime put here has a GPU."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as e:
        print(f"the container runtime put no driver here: {e}", file=sys.stderr)
        return 1
    count = ctypes.c_uint(0)
    code = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code or not count.value:
        print(f"the driver has no GPU for this container (NVML: {code})", file=sys.stderr)
        return 1
    if code := _start_cuda():
        print(f"Failed to allocate device vector A (error code {code})!", file=sys.stderr)
        return 1
    print(f"simulated: {count.value} GPUs; Test PASSED", flush=True)
    return 0


def _start_cuda() -> int:
    """The error of CUDA's initialization; 0 also if only the partitions are not there yet."""
    code = int(ctypes.CDLL("libcuda.so.1").cuInit(0))
    return 0 if code == _NO_DEVICE else code


if __name__ == "__main__":
    sys.exit(main())
