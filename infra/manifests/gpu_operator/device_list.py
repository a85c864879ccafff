"""Variables of the container toolkit and the device plugin that say how a container names GPUs.

Sources: NVIDIA, "Read list of GPU devices from volume mounts instead of NVIDIA_VISIBLE_DEVICES";
NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer; NVIDIA/k8s-device-plugin README.
"""

from __future__ import annotations

from typing import Final

VARIABLE_COUNTS: Final = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
"""The toolkit's; by default true."""
MOUNTS_COUNT: Final = "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"
"""The toolkit's; by default false."""
STRATEGY: Final = "DEVICE_LIST_STRATEGY"
"""The device plugin's: how it hands out the devices that it allocates."""
BY_MOUNTS: Final = "volume-mounts"
BY_CDI: Final = "cdi-annotations,cdi-cri"
"""The operator's choice if `cdi` is enabled."""
