"""What a reboot of a node changes, and what it leaves, against a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.node.root import NodeFiles
from tests.rehearsal.cluster.kubelet.simulated_cluster import PYTHON

TELLS_WHAT_IT_FINDS = """
import os, pathlib, time
for kind in ("disk", "memory"):
    file = pathlib.Path("/" + kind) / "file"
    print(kind, "kept" if file.exists() else "empty", flush=True)
    file.write_text("x")
time.sleep(10000)
"""
SLEEPS = "import time; time.sleep(10000)"


@pytest.fixture(scope="module")
def node(cluster: Any) -> Any:
    """A node of its own, with a label and without a taint, as the controller leaves it."""
    return cluster.add_node("reboots", labels={"slicewright.io/pool": "p"})


def files(cluster: Any) -> NodeFiles:
    return NodeFiles(cluster.directory / "nodes" / "reboots")


def boot_id(node: dict[str, Any] | None) -> str:
    return str(((node or {}).get("status") or {}).get("nodeInfo", {}).get("bootID"))


def ready(node: dict[str, Any] | None) -> str:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "none")


def reboot(cluster: Any, node: str, down_s: float = 0.0) -> None:
    """Returns when the node has posted the new boot id."""
    before = boot_id(cluster.client.get(node))
    reboots.request(files(cluster).root, down_s)
    cluster.until(node, lambda n: boot_id(n) != before)


def first(pod: dict[str, Any] | None, kind: str = "containerStatuses") -> dict[str, Any]:
    return dict((((pod or {}).get("status") or {}).get(kind) or [{}])[0])


def says(cluster: Any, path: str, text: str) -> None:
    cluster.says(path, lambda said: said == text)


ON_IT = {"nodeSelector": {"kubernetes.io/hostname": "reboots"}}


def test_a_pod_restarts_in_place_with_the_files_of_its_disk(cluster: Any, node: str) -> None:
    path = cluster.run_python(
        "rebooted",
        TELLS_WHAT_IT_FINDS,
        container={
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "disk", "mountPath": "/disk"},
                {"name": "memory", "mountPath": "/memory"},
            ]
        },
        volumes=(
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ),
        initContainers=[
            {
                "name": "first",
                "image": PYTHON,
                "command": ["python", "-c", "print('init')"],
            }
        ],
        **ON_IT,
    )
    before = cluster.ready(path)
    says(cluster, path, "disk empty\nmemory empty\n")
    reboot(cluster, node)
    again = cluster.until(
        path, lambda p: p if first(p).get("restartCount") == 1 and first(p).get("ready") else None
    )
    assert again["metadata"]["uid"] == before["metadata"]["uid"]
    lost = first(again)["lastState"]["terminated"]
    assert (lost["exitCode"], lost["reason"]) == (255, "Unknown")
    assert first(again, "initContainerStatuses")["restartCount"] == 1
    assert again["status"]["podIP"] != before["status"]["podIP"]
    says(cluster, path, "disk kept\nmemory empty\n")


def test_a_pod_that_never_restarts_has_failed(cluster: Any, node: str) -> None:
    path = cluster.run_python("once", SLEEPS, restartPolicy="Never", **ON_IT)
    cluster.ready(path)
    reboot(cluster, node)
    failed = cluster.until(
        path, lambda p: p if p["status"]["phase"] == "Failed" and first(p).get("state") else None
    )
    assert first(failed)["state"]["terminated"]["exitCode"] == 255


def test_the_node_object_survives_and_its_run_directory_does_not(cluster: Any, node: str) -> None:
    mark = files(cluster).root / "run/nvidia/validations/toolkit-ready"
    mark.touch()
    disk = files(cluster).root / "var/lib/kubelet/kept"
    disk.touch()
    before = cluster.client.get(node)
    reboot(cluster, node)
    after = cluster.client.get(node)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"].get("taints") == before["spec"].get("taints")
    assert not mark.exists()
    assert disk.exists()


def test_a_quick_reboot_is_seen_by_the_boot_id_alone(cluster: Any, node: str) -> None:
    """As with kexec: the node is back before anybody calls it NotReady."""
    cluster.until(node, lambda n: ready(n) == "True")
    heard = []
    before = boot_id(cluster.client.get(node))
    reboots.request(files(cluster).root)
    cluster.until(node, lambda n: heard.append(ready(n)) or boot_id(n) != before)
    assert set(heard) == {"True"}


def test_a_node_that_stays_down_is_not_ready_until_it_is_back(cluster: Any, node: str) -> None:
    simulated = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kwoks", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "example.org/c:1"}], **ON_IT},
    }
    cluster.create(simulated)
    pod = cluster.ready("/api/v1/namespaces/default/pods/kwoks")
    before = boot_id(cluster.client.get(node))
    reboots.request(files(cluster).root, 6)
    down = cluster.until(node, lambda n: n if ready(n) == "Unknown" else None)
    assert boot_id(down) == before
    back = cluster.until(node, lambda n: n if ready(n) == "True" else None)
    assert boot_id(back) != before
    again = cluster.until(
        "/api/v1/namespaces/default/pods/kwoks",
        lambda p: p if first(p).get("restartCount") == 1 else None,
    )
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    assert first(again)["lastState"]["terminated"]["reason"] == "Unknown"


def test_a_pod_that_comes_while_its_node_is_down_has_nothing_to_restart(
    cluster: Any, node: str
) -> None:
    """As after a quick reboot, whose last steps the next pod can overtake."""
    reboots.request(files(cluster).root, 6)
    cluster.until(node, lambda n: ready(n) == "Unknown")
    path = "/api/v1/namespaces/default/pods/late"
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {
                "containers": [{"name": "c", "image": "example.org/c:1"}],
                "nodeName": "reboots",
            },
        }
    )
    cluster.ready(path)
    cluster.until(node, lambda n: ready(n) == "True")
    # The next reboot is served after the first has done its last step.
    reboot(cluster, node)
    again = cluster.until(path, lambda p: p if first(p).get("restartCount") else None)
    assert first(again)["restartCount"] == 1


def test_a_node_deleted_while_it_is_down_is_gone(cluster: Any) -> None:
    path = cluster.add_node("down")
    root = cluster.directory / "nodes" / "down"
    cluster.until(path, lambda n: ready(n) == "True" and (root / "root/run/initctl").exists())
    reboots.request(root / "root", 60)
    cluster.until(path, lambda n: ready(n) == "Unknown")
    cluster.client.delete(path)
    cluster.gone(path)
    again = cluster.add_node("down")  # its directory is built by the next node of the name
    cluster.until(again, lambda n: ready(n) == "True")


def test_a_pod_that_a_fault_holds_does_not_hold_up_the_reboot(cluster: Any) -> None:
    hold = {"kind": "hold", "pods": ["held"]}
    path = cluster.add_node("holds", {"cloud": "eks", "fault": hold})
    pod = cluster.run_python("held", SLEEPS, nodeSelector={"kubernetes.io/hostname": "holds"})
    waiting = cluster.until(
        pod, lambda p: (p["status"].get("podIP") and first(p).get("state")) or None
    )
    assert waiting["waiting"]["reason"] == "ContainerCreating"
    before = boot_id(cluster.client.get(path))
    reboots.request(NodeFiles(cluster.directory / "nodes" / "holds").root)
    cluster.until(path, lambda n: boot_id(n) != before)
    let_go = {"rehearsal.slicewright.io/machine": '{"cloud": "eks"}'}
    cluster.client.patch(path, {"metadata": {"annotations": let_go}})
    cluster.ready(pod)
