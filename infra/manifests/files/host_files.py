"""Hosts without Kubernetes: the layout file that `slicewright-agent apply --file` reads, one per
host, and an Ansible inventory with the settings that a layout file lacks.

A GPU is named by its NVML index, as in the stack file. The agent knows UUIDs, the plan does not.
Source of the inventory's format: Ansible, "How to build your inventory",
https://docs.ansible.com/ansible/latest/inventory_guide/intro_inventory.html
"""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.apis.layout import GpuLayout, Layout, Partition
from slicewright.infra.manifests.text import as_flow_yaml
from slicewright.infra.plan import HostGpuPlan, HostPlan

INVENTORY = "inventory.yaml"
GROUP = "gpu_hosts"
"""The inventory's group with every host."""


def layout_file_name(host: str) -> str:
    return f"{host}.layout"


def host_files(hosts: tuple[HostPlan, ...]) -> Mapping[str, str]:
    """File name -> content, the same for the same plan. Empty if there are no hosts."""
    if not hosts:
        return {}
    return {
        **{layout_file_name(host.name): _layout_file(host) for host in hosts},
        INVENTORY: _inventory(hosts),
    }


def host_layout(host: HostPlan) -> Layout:
    return Layout(clauses=tuple(((str(gpu.index),), _gpu_layout(gpu)) for gpu in host.gpus))


def _gpu_layout(gpu: HostGpuPlan) -> GpuLayout:
    return GpuLayout(
        mig=gpu.mig,
        parts=tuple(Partition(profile=p.profile, start=p.start) for p in gpu.instances),
    )


def _layout_file(host: HostPlan) -> str:
    clauses = (str(Layout(clauses=(clause,))) for clause in host_layout(host).clauses)
    head = (
        f"# {host.name}: {host.gpu_count} x {host.gpu.name}. Written by slicewright plan; GPUs by "
        "NVML index, others are not touched."
    )
    return "\n".join([head, *clauses, ""])


def _inventory(hosts: tuple[HostPlan, ...]) -> str:
    return as_flow_yaml(
        {
            GROUP: {
                "hosts": {
                    host.name: {
                        "slicewright_layout": layout_file_name(host.name),
                        "slicewright_wait_s": 60 * (host.wait_minutes or 0),
                        "slicewright_gpus": [
                            {"index": gpu.index, "mig": gpu.mig, "persistence": gpu.persistence}
                            for gpu in host.gpus
                        ],
                    }
                    for host in hosts
                }
            }
        }
    )
