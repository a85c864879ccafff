"""The product reads what the simulated device plugins and schedulers write."""

from __future__ import annotations

import pytest

from slicewright.apis.shares.allocation import read_allocation
from slicewright.apis.shares.engines import ENGINES, EngineName
from slicewright.apis.shares.registration import read_registration
from slicewright.rehearsal.cluster.vgpu import hami, volcano
from slicewright.rehearsal.cluster.vgpu.cards import Card, Share, Sharing

CARDS = (
    Card(index=0, uuid="GPU-0", model="Tesla T4", memory_mib=15360),
    Card(index=1, uuid="GPU-1", model="Tesla T4", memory_mib=15360, healthy=False),
)
FORMATS = {"hami": hami.HAMI, "volcano": volcano.VOLCANO}
ALLOCATIONS = {"hami": hami.ALLOCATED, "volcano": volcano.ALLOCATED}


@pytest.mark.parametrize("name", ["hami", "volcano"])
def test_registered_cards(name: EngineName) -> None:
    annotations = FORMATS[name].registration(CARDS, Sharing(memory_factor=2))
    cards = read_registration(name, annotations[ENGINES[name].registration])
    assert [(c.uuid, c.slots, c.memory_units, c.compute_percent, c.healthy) for c in cards] == [
        ("GPU-0", 10, 7680, 100, True),
        ("GPU-1", 10, 7680, 100, False),
    ]


@pytest.mark.parametrize("name", ["hami", "volcano"])
def test_allocated_shares(name: EngineName) -> None:
    assert ENGINES[name].allocation == ALLOCATIONS[name]
    assert ENGINES[name].lock == FORMATS[name].lock
    assert ENGINES[name].cards == FORMATS[name].counting
    share = Share(uuid="GPU-0", memory_units=6144, compute_percent=80)
    (read,) = read_allocation(FORMATS[name].encode([[], [share]]))
    assert (read.uuid, read.memory_units, read.compute_percent) == ("GPU-0", 6144, 80)
