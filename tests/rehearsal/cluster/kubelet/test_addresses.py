"""Pod addresses."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.cluster.kubelet.pods.addresses import AddressBlock, NoAddress


def test_two_stand_ins_never_share_a_block_and_close_releases_it() -> None:
    first = AddressBlock("same")
    second = AddressBlock("same")
    assert not first.network.overlaps(second.network)
    was = first.network
    first.close()
    third = AddressBlock("same")
    assert third.network == was
    second.close()
    third.close()


def test_addresses_are_unique_and_an_earlier_one_can_be_kept() -> None:
    block = AddressBlock("x")
    try:
        taken = [block.take() for _ in range(600)]
        assert len(set(taken)) == 600
        assert not any(a.endswith((".0", ".255")) for a in taken)
        block.give_back(taken[0])
        assert block.take(taken[0]) == taken[0]
        assert block.take(taken[0]) not in taken
        assert block.take("10.0.0.1") not in taken
    finally:
        block.close()


def test_services_have_addresses_that_no_pod_gets() -> None:
    block = AddressBlock("x")
    try:
        services = [block.take_service() for _ in range(253)]
        pods = [block.take() for _ in range(600)]
        assert len({*services, *pods}) == 853
        with pytest.raises(NoAddress, match="for Services are in use"):
            block.take_service()
        block.give_back(services[7])
        assert block.take_service("nonsense") == services[7]
        block.give_back(services[8])
        block.give_back(services[9])
        assert block.take_service(services[9]) == services[9]
    finally:
        block.close()
