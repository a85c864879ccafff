"""What a device plugin without a process answers, by its DEVICE_LIST_STRATEGY."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.cluster.kubelet.deviceplugin.simulated_plugin import (
    DeviceList,
    device_list,
)


@pytest.mark.parametrize(
    ("strategy", "answer"),
    [
        ("", "envvar"),
        ("envvar", "envvar"),
        ("volume-mounts", "volume-mounts"),
        ("envvar,volume-mounts", "volume-mounts"),
        ("cdi-annotations,cdi-cri", "cdi"),
        ("cdi-cri,cdi-annotations,volume-mounts", "cdi"),
    ],
)
def test_the_strategy_decides_the_answer(strategy: str, answer: DeviceList) -> None:
    assert device_list(strategy) == answer
