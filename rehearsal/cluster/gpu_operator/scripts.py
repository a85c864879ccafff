"""The entrypoints that the operator mounts into its operands, and what their init containers wait.

Each waits for the validator's file, takes the driver's place from it, and becomes NVIDIA's program.
Source: NVIDIA/gpu-operator, assets/*/*_configmap.yaml and *_daemonset.yaml.
"""

from __future__ import annotations

VALIDATIONS = "/run/nvidia/validations"
"""Where the validator writes a file `<component>-ready`, on the node's own file system."""

DRIVER_CONTAINER_READY = ".driver-ctr-ready"
"""The file in VALIDATIONS by which the driver container says that the driver is loaded."""

DRIVER_STARTUP_PROBE = f"""\
#!/bin/sh
set -eu
mkdir -p {VALIDATIONS}
[ -f /proc/driver/nvidia/version ] || {{ echo "NVIDIA kernel module not loaded"; exit 1; }}
touch {VALIDATIONS}/{DRIVER_CONTAINER_READY}
"""
"""NVIDIA's looks for the module in /sys, and runs nvidia-smi."""

WAIT_FOR_TOOLKIT = (
    f"until [ -f {VALIDATIONS}/toolkit-ready ]; do "
    "echo waiting for nvidia container stack to be setup; sleep 5; done"
)

_ENTRYPOINT = f"""\
#!/bin/sh
until [ -f {VALIDATIONS}/driver-ready ]
do
  echo "waiting for the driver validations to be ready..."
  sleep 5
done
set -o allexport
cat {VALIDATIONS}/driver-ready
. {VALIDATIONS}/driver-ready
"""

TOOLKIT = f"{_ENTRYPOINT}exec nvidia-toolkit\n"
DEVICE_PLUGIN = f"{_ENTRYPOINT}exec nvidia-device-plugin\n"
FEATURE_DISCOVERY = f"{_ENTRYPOINT}exec gpu-feature-discovery\n"
# A driver that the operator did not install is used by services of the host, which must let go of
# the GPUs first.
MIG_MANAGER = f"""\
{_ENTRYPOINT}export WITH_SHUTDOWN_HOST_GPU_CLIENTS=$IS_HOST_DRIVER
echo "WITH_SHUTDOWN_HOST_GPU_CLIENTS=$WITH_SHUTDOWN_HOST_GPU_CLIENTS"
exec nvidia-mig-manager
"""

GPU_CLIENTS = """\
version: v1
systemd-services:
  - nvsm.service
  - nvsm-mqtt.service
  - nvsm-core.service
  - nvsm-api-gateway.service
  - nvsm-notifier.service
  - nv_peer_mem.service
  - nvidia-dcgm.service
  - dcgm.service
  - dcgm-exporter.service
"""
"""The map default-gpu-clients: services that mig-manager stops while it changes MIG mode."""

# With an empty migManager.config.name, mig-manager 0.14 and newer generate all-<profile> for the
# hardware. Here are only the two that need no hardware, for a mig-manager without that.
DEFAULT_LAYOUTS = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}
"""
