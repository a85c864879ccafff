"""The simulated clouds' machine types."""

from __future__ import annotations

import pytest

from slicewright.infra import catalog
from slicewright.rehearsal.clouds.aws import machines as aws
from slicewright.rehearsal.clouds.core.machines import reserved_cpu_millis
from slicewright.rehearsal.clouds.gcp import machines as gcp
from slicewright.rehearsal.cluster.silicon.models import models

MACHINES = {"gke": gcp.machines(), "eks": aws.machines()}

REQUIRED = {
    "gke": {
        "e2-standard-4",
        "n2-standard-4",
        "a2-highgpu-1g",
        "a2-highgpu-8g",
        "a2-ultragpu-8g",
        "a3-highgpu-8g",
        "g2-standard-4",
        "g2-standard-8",
        "n1-standard-4",
    },
    "eks": {
        "t3.large",
        "m6i.large",
        "m7i.large",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
        "g4dn.xlarge",
        "g5.xlarge",
        "g6.xlarge",
    },
}


@pytest.mark.parametrize("provider", ["gke", "eks"])
def test_every_row_reads(provider) -> None:
    found = MACHINES[provider]
    assert REQUIRED[provider] <= set(found)
    for machine in found.values():
        assert 0.9 * machine.ram_gib * 2**20 < machine.memory_ki <= machine.ram_gib * 2**20, (
            machine.name
        )
        assert bool(machine.gpu) == bool(machine.gpu_count), machine.name
        assert (machine.pods is not None) == (provider == "eks"), machine.name


def test_every_accelerator_type_of_gke_has_a_gpu_model() -> None:
    offered = {m.gpu for m in gcp.machines().values() if m.gpu} | {
        g for m in gcp.machines().values() for g in m.gpu_choices
    }
    assert offered <= set(gcp.GPU_MODELS)


EKS_CATALOG = [m for (cloud, _), m in catalog.load().machines.items() if cloud == "eks"]


@pytest.mark.parametrize("row", EKS_CATALOG, ids=lambda row: row.name)
def test_every_eks_machine_of_the_catalog_can_be_rehearsed(row: catalog.Machine) -> None:
    machine = aws.machines()[row.name]
    assert (machine.gpu_count, machine.architecture) == (row.gpu_count, row.architecture)
    assert machine.gpu is None or machine.gpu in models()


GOOGLES = sorted((m.name, m) for (c, _), m in catalog.load().machines.items() if c == "gke")


@pytest.mark.parametrize(("name", "declared"), GOOGLES, ids=[name for name, _ in GOOGLES])
def test_every_machine_type_of_google_in_the_catalog_can_be_rehearsed(name, declared) -> None:
    """Two tables, written apart: what one gets wrong the other shows."""
    simulated = gcp.machines()[name]
    assert simulated.vcpu == declared.vcpus
    assert simulated.ram_gib == declared.memory_gib
    assert simulated.gpu_count == declared.gpu_count
    assert simulated.architecture == declared.architecture
    if declared.gpu is not None:
        assert gcp.GPU_MODELS[simulated.gpu] == declared.gpu.name
        assert simulated.gpu == declared.accelerator
        assert models()[declared.gpu.name]
    for attachable in declared.attachable:
        offered = simulated.gpu_choices[attachable.accelerator]
        assert set(attachable.counts) <= set(offered), "the catalog offers what GCE refuses"
    if declared.zones and simulated.zones:
        assert set(declared.zones) == simulated.zones
    if declared.local_ssds is not None:
        assert simulated.local_ssd == declared.local_ssds
    if declared.boot_disks is not None:
        assert simulated.boot_disks == declared.boot_disks


@pytest.mark.parametrize(
    ("vcpu", "millis"), [(1, 60), (2, 70), (4, 80), (8, 90), (96, 310), (208, 590)]
)
def test_reserved_cpu_is_as_the_clouds_document_it(vcpu: int, millis: int) -> None:
    assert reserved_cpu_millis(vcpu) == millis


def test_reserved_memory_is_as_the_clouds_document_it() -> None:
    """GKE keeps 2.6 GiB of 16, nodeadm 255 MiB and 11 MiB per pod; both 100 MiB for eviction."""
    assert gcp.reserved_memory_ki(16) == int(2.6 * 2**20) + 100 * 1024
    assert aws.reserved_memory_ki(250) == (255 + 2750 + 100) * 1024
