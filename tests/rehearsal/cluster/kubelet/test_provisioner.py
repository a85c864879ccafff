"""A claim gets a volume by its class: one directory for pods of all nodes, while it is there."""

from __future__ import annotations

from typing import Any

from slicewright.rehearsal.cluster.kubelet.pods import provisioner

CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "shared"},
    "provisioner": provisioner.NAME,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "cache", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WRITES = "open('/cache/found', 'w').write('by the first')"
READS = "print(open('/cache/found').read(), flush=True)"
STAYS = "\nimport time\ntime.sleep(3600)"


def test_pods_of_two_nodes_share_the_volume_of_a_claim_which_goes_with_it(cluster: Any) -> None:
    cluster.add_node("n2")
    cluster.client.create("/apis/storage.k8s.io/v1/storageclasses", CLASS)
    made = cluster.client.create(CLAIMS, CLAIM)
    bound = cluster.until(
        f"{CLAIMS}/cache",
        lambda found: found if found and found["status"].get("phase") == "Bound" else None,
    )
    volume = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"
    spec = cluster.client.get(volume)["spec"]
    assert spec["claimRef"]["uid"] == made["metadata"]["uid"]
    assert (spec["accessModes"], spec["capacity"]) == (["ReadWriteMany"], {"storage": "1Gi"})

    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    paths = []
    for name, node, does in (("writer", "n1", WRITES), ("reader", "n2", READS)):
        mounts = [{"name": "cache", "mountPath": "/cache"}]
        path = cluster.run_python(
            name,
            does + STAYS,
            nodeSelector={"kubernetes.io/hostname": node},
            volumes=volumes,
            container={"volumeMounts": [{"name": "code", "mountPath": "/code"}, *mounts]},
        )
        cluster.ready(path)
        paths.append(path)
    cluster.says(paths[1], lambda log: "by the first" in log)

    for path in paths:
        cluster.client.delete(path)
        cluster.gone(path)
    cluster.client.delete(f"{CLAIMS}/cache")
    cluster.gone(f"{CLAIMS}/cache")
    cluster.gone(volume)
