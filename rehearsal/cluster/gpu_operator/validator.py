"""`nvidia-validator` of a simulated node: `python -m
slicewright.rehearsal.cluster.gpu_operator.validator`.

An init container of the validator's pod, one per COMPONENT, in this order: driver, toolkit, cuda,
plugin. Each writes its file `<component>-ready`, for which the other operands wait. NVIDIA's
own cannot be built here. It would run nvidia-smi, too; the driver's files, the node's resources and
the end of CUDA's pod (cuda_workload.py) are checked as there. Source: NVIDIA/gpu-operator,
cmd/nvidia-validator.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable
from slicewright.rehearsal.cluster.gpu_operator import cuda_workload
from slicewright.rehearsal.cluster.gpu_operator.scripts import DRIVER_CONTAINER_READY, VALIDATIONS

_WAIT_S = 5.0
_PLUGIN_TRIES = 30
"""Of 5 s each: how long the device plugin may take to register a resource."""
_HOST_LIBRARY = "usr/lib64/libnvidia-ml.so.1"
_LIBRARY = "lib64/libnvidia-ml.so.1"
"""Below the directory in which Google's installer has installed the driver."""
_CONTAINER_LIBRARY = f"usr/{_LIBRARY}"
"""Below the root of the operator's driver container."""
_DEFAULT_DIRECTORY = "/run/nvidia/driver"
_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")

DRIVER_READY = """\
IS_HOST_DRIVER=true
NVIDIA_DRIVER_ROOT=/
DRIVER_ROOT_CTR_PATH=/host
NVIDIA_DEV_ROOT=/
DEV_ROOT_CTR_PATH=/host
"""
"""Of a driver that the machine's image contains: it is used by services of the host."""
INSTALLED_DRIVER_READY = """\
IS_HOST_DRIVER=false
NVIDIA_DRIVER_ROOT={directory}
DRIVER_ROOT_CTR_PATH=/driver-root
NVIDIA_DEV_ROOT=/
DEV_ROOT_CTR_PATH=/host
"""
"""Of a driver in a directory of its own, which has no device nodes: those are the host's."""


class NotValid(Exception):
    """The component is not in order; the container ends with the message, and is restarted."""


def validate(
    component: str,
    *,
    host: Path,
    node: Callable[[], JsonObject],
    sleep: Callable[[float], None],
    driver: Mapping[str, str],
    workload: Callable[[], None] = lambda: None,
    validations: Path = Path(VALIDATIONS),
) -> str:
    """What to write into the component's file. Raises NotValid, and what `workload` raises.

    host: the node's root file system. node: reads the Node object. workload: runs CUDA's pod to its
    end. driver: DRIVER_INSTALL_DIR,
    where a driver that is not in the image is on the host, and DRIVER_INSTALL_DIR_CTR_PATH, where
    it is here. validations: the directory of the components' files.
    """
    match component:
        case "driver":
            installed = Path(driver.get("DRIVER_INSTALL_DIR_CTR_PATH", _DEFAULT_DIRECTORY))
            while True:
                if (host / _HOST_LIBRARY).exists():
                    return DRIVER_READY
                by_container = (installed / _CONTAINER_LIBRARY).exists()
                loaded = validations / DRIVER_CONTAINER_READY
                if loaded.exists() if by_container else (installed / _LIBRARY).exists():
                    directory = driver.get("DRIVER_INSTALL_DIR", _DEFAULT_DIRECTORY)
                    return INSTALLED_DRIVER_READY.format(directory=directory)
                if by_container:
                    print(f"{loaded} does not exist; is the driver container ready?", flush=True)
                else:
                    places = f"{host / _HOST_LIBRARY} and {installed / _LIBRARY}"
                    print(f"neither {places} exists; is the driver installed?", flush=True)
                sleep(_WAIT_S)
        case "toolkit":
            try:
                ctypes.CDLL("libnvidia-ml.so.1")
            except OSError as e:
                raise NotValid(f"the container runtime put no driver here: {e}") from None
            return ""
        case "cuda":
            workload()
            return ""
        case "plugin":
            for _ in range(_PLUGIN_TRIES):
                if has_gpu_resource(node()):
                    return ""
                print("GPU resources are not discovered by the node yet", flush=True)
                sleep(_WAIT_S)
            raise NotValid("GPU resources are not discovered by the node")
        case _:
            raise NotValid(f"COMPONENT={component!r} is none of driver, toolkit, cuda, plugin")


def has_gpu_resource(node: JsonObject) -> bool:
    """Whether the device plugin has registered at least one device."""
    capacity: Mapping[str, str] = (node.get("status") or {}).get("capacity") or {}
    return any(name.startswith(_RESOURCES) and int(n) > 0 for name, n in capacity.items())


def main() -> int:
    component = os.environ.get("COMPONENT", "")

    def node() -> JsonObject:
        client = Client.in_cluster(user_agent="slicewright-nvidia-validator")
        return client.get(f"/api/v1/nodes/{os.environ['NODE_NAME']}")

    def workload() -> None:
        client = Client.in_cluster(user_agent="slicewright-nvidia-validator")
        cuda_workload.run(client, os.environ, time.sleep)

    try:
        text = validate(
            component,
            host=Path("/host"),
            node=node,
            sleep=time.sleep,
            driver=os.environ,
            workload=workload,
        )
    except (NotValid, cuda_workload.WorkloadFailed, ApiError, Unreachable, OSError) as e:
        print(f"validation of {component} failed: {e}", file=sys.stderr)
        return 1
    ready = Path(VALIDATIONS) / f"{component}-ready"
    written = ready.with_name(f".{ready.name}.new")
    written.write_text(text)
    written.replace(ready)
    print(f"simulated nvidia-validator: {component} is ready", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
