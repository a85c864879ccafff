"""Extended resources that containers request and nodes have."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes.device_requests import (
    devices_asked,
    differing,
    is_nvidias_device,
)


def test_amounts_that_the_api_server_shortens_are_counted() -> None:
    limits = {"volcano.sh/vgpu-memory": "6k", "volcano.sh/vgpu-number": "3", "cpu": "500m"}
    assert devices_asked({"resources": {"limits": limits}}) == {
        "volcano.sh/vgpu-memory": 6000,
        "volcano.sh/vgpu-number": 3,
    }
    none = {"limits": {"nvidia.com/gpu": "0", "requests.kubernetes.io/x": "1"}}
    assert devices_asked({"resources": none}) == {}
    assert devices_asked({}) == {}


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_nvidias_devices_need_a_plugin(resource: str) -> None:
    assert is_nvidias_device(resource)


@pytest.mark.parametrize("resource", ["nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/x"])
def test_amounts_that_only_a_scheduler_counts_do_not(resource: str) -> None:
    assert not is_nvidias_device(resource)


def test_a_count_that_the_status_has_shortened_is_not_written_again() -> None:
    now = {"volcano.sh/vgpu-memory": "60k", "nvidia.com/gpu": "8"}
    assert differing(now, {"volcano.sh/vgpu-memory": 60000, "nvidia.com/gpu": 8}) == {}
    assert differing(now, {"nvidia.com/gpu": 0, "volcano.sh/vgpu-cores": 400}) == {
        "nvidia.com/gpu": "0",
        "volcano.sh/vgpu-cores": "400",
    }
