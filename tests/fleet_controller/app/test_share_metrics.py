"""Metrics of shared cards: registered and allocated amounts, and pods without a share."""

from __future__ import annotations

from slicewright.fleet_controller.app.share_metrics import share_families
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.telemetry.prometheus import lines
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.decision.test_shares import node, pod, pool


def written(*pods: NodePod) -> str:
    of = pool("volcano")
    families = share_families([of], [node("volcano")], lambda name: pods if name == "n1" else ())
    return "\n".join(line for family in families for line in lines(family))


def test_allocated_amounts_are_summed_by_card() -> None:
    text = written(
        pod("volcano", "GPU-0,NVIDIA,2048,20:;", "a"), pod("volcano", "GPU-0,NVIDIA,1024,40:;", "b")
    )
    card = 'pool="shared",node="n1",uuid="GPU-0"'
    assert f'slicewright_card_memory_bytes{{{card},state="registered"}} {16384 * 2**20}' in text
    assert f'slicewright_card_memory_bytes{{{card},state="allocated"}} {3072 * 2**20}' in text
    assert f'slicewright_card_compute_ratio{{{card},state="allocated"}} 0.6' in text
    assert 'uuid="GPU-1",state="allocated"} 0' in text
    assert 'slicewright_pods_without_share{pool="shared"} 0' in text


def test_each_card_of_a_pod_is_attributed() -> None:
    """Several containers of a pod on one card are one sample."""
    two = "GPU-0,NVIDIA,1024,10:;GPU-0,NVIDIA,1024,10:GPU-1,NVIDIA,512,10:;"
    text = written(pod("volcano", two, "a"))
    of_pod = 'namespace="models",pod="a"'
    for uuid, mib in (("GPU-0", 2048), ("GPU-1", 512)):
        marks = f'pool="shared",node="n1",uuid="{uuid}",{of_pod}'
        assert f"slicewright_pod_card_memory_bytes{{{marks}}} {mib * 2**20}" in text


def test_pods_without_a_share_are_counted() -> None:
    assert 'slicewright_pods_without_share{pool="shared"} 1' in written(pod("volcano", None))


def test_without_an_engine_there_is_nothing() -> None:
    assert share_families([build_pool(name="p")], [node("volcano")], lambda name: ()) == ()
