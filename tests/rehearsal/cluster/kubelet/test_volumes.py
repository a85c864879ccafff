"""Volumes as files."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
)
from slicewright.rehearsal.cluster.kubelet.pods import shares
from slicewright.rehearsal.cluster.kubelet.pods.volumes import (
    PodVolumes,
    VolumeContext,
    prepare,
    refresh,
)


class Objects:
    """Sources with a few objects, and a count of the tokens that were asked for."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {
            ("configmaps", "code"): {
                "data": {"a.txt": "A"},
                "binaryData": {"b.bin": base64.b64encode(b"\x00\xff").decode()},
            },
            ("secrets", "keys"): {"data": {"token": base64.b64encode(b"s3").decode()}},
        }
        self.tokens = 0

    def find(self, kind: str, namespace: str, name: str) -> Any:
        assert namespace == ("" if kind == "persistentvolumes" else "ns")
        return self.objects.get((kind, name))

    def token(self, pod: Any, audience: str | None, expiration_s: int) -> tuple[str, float]:
        self.tokens += 1
        return f"{pod['metadata']['uid']}/{audience}/{expiration_s}/{self.tokens}", float(
            expiration_s
        )


def context(tmp_path: Path, *volumes: dict[str, Any], owner: int | None = None) -> VolumeContext:
    pod = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "x"}},
        "spec": {"volumes": list(volumes)},
    }
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return VolumeContext(
        pod=pod,
        directory=tmp_path / "pod",
        node_root=root,
        pod_ip="127.9.1.1",
        host_ip="127.0.0.1",
        owner=owner,
    )


def made(tmp_path: Path, volume: dict[str, Any]) -> PodVolumes:
    return prepare(context(tmp_path, {"name": "v", **volume}), Objects())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_config_map_has_its_text_and_its_binary_keys(tmp_path: Path) -> None:
    directory = made(tmp_path, {"configMap": {"name": "code", "defaultMode": 0o440}}).paths["v"]
    assert (directory / "a.txt").read_text() == "A"
    assert (directory / "b.bin").read_bytes() == b"\x00\xff"
    assert mode(directory / "a.txt") == 0o440


def test_items_choose_and_rename_keys(tmp_path: Path) -> None:
    items = [{"key": "a.txt", "path": "sub/z", "mode": 0o600}]
    directory = made(tmp_path, {"configMap": {"name": "code", "items": items}}).paths["v"]
    assert [p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()] == [
        "sub/z"
    ]
    assert mode(directory / "sub/z") == 0o600


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        (
            {"configMap": {"name": "code", "items": [{"key": "no", "path": "x"}]}},
            "non-existent config key: no",
        ),
        ({"hostPath": {"path": "/no/such", "type": "Directory"}}, "/no/such is not a Directory"),
    ],
)
def test_a_missing_object_or_key_is_named(
    tmp_path: Path, volume: dict[str, Any], message: str
) -> None:
    with pytest.raises(MissingReference, match=message):
        made(tmp_path, volume)


def test_an_optional_object_may_be_missing(tmp_path: Path) -> None:
    assert (
        list(made(tmp_path, {"configMap": {"name": "gone", "optional": True}}).paths["v"].iterdir())
        == []
    )


def test_a_projected_volume_holds_token_certificate_and_namespace(tmp_path: Path) -> None:
    objects = Objects()
    objects.objects[("configmaps", "kube-root-ca.crt")] = {"data": {"ca.crt": "PEM"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    described = context(tmp_path, {"name": "v", "projected": {"sources": sources}}, owner=65532)
    volumes = prepare(described, objects)
    directory = volumes.paths["v"]
    assert {p.name: p.read_text() for p in directory.iterdir()} == {
        "token": "u-1/None/3607/1",
        "ca.crt": "PEM",
        "namespace": "ns",
    }
    assert mode(directory / "token") == 0o600
    refresh(described, objects, volumes.tokens[0])
    assert (directory / "token").read_text() == "u-1/None/3607/2"


def test_a_token_of_a_pod_whose_containers_run_as_different_users_has_the_mode_of_its_volume(
    tmp_path: Path,
) -> None:
    """The kubelet cannot know whose it is; without this a container that is not root would stand
    before a file of root's.
    """
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    assert mode(made(tmp_path, token).paths["v"] / "token") == 0o644
    token["projected"]["defaultMode"] = 0o440  # type: ignore[assignment]
    assert mode(made(tmp_path, token).paths["v"] / "token") == 0o440


def test_host_paths_are_below_the_nodes_root(tmp_path: Path) -> None:
    described = context(
        tmp_path, {"name": "v", "hostPath": {"path": "/var/lib/x", "type": "DirectoryOrCreate"}}
    )
    assert prepare(described, Objects()).paths["v"] == tmp_path / "root/var/lib/x"
    assert (tmp_path / "root/var/lib/x").is_dir()
    (tmp_path / "root/out").symlink_to("/etc")
    with pytest.raises(Unsupported, match="leads out of the simulated node"):
        prepare(context(tmp_path, {"name": "v", "hostPath": {"path": "/out/passwd"}}), Objects())


def test_an_unknown_kind_of_volume_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="iscsi"):
        made(tmp_path, {"iscsi": {"targetPortal": "x"}})


NFS = {"server": "10.0.0.9", "path": "/shares/models"}


def test_a_share_is_the_same_directory_for_every_cluster(tmp_path: Path) -> None:
    share = shares.directory(tmp_path, **NFS)
    share.mkdir(parents=True)
    for cluster in ("a", "b"):
        root = tmp_path / "clusters" / cluster / "nodes" / "n" / "root"
        root.mkdir(parents=True)
        asked = context(tmp_path, {"name": "v", "nfs": NFS})
        assert prepare(replace(asked, node_root=root), Objects()).paths["v"] == share


def test_a_claim_whose_volume_is_a_share_is_that_share(tmp_path: Path) -> None:
    share = shares.directory(tmp_path, **NFS)
    share.mkdir(parents=True)
    root = tmp_path / "clusters" / "a" / "nodes" / "n" / "root"
    root.mkdir(parents=True)
    objects = Objects()
    claim = {"metadata": {"uid": "u"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    objects.objects["persistentvolumeclaims", "models"] = claim
    objects.objects["persistentvolumes", "pv"] = {"spec": {"nfs": NFS}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "models"}}
    asked = replace(context(tmp_path, volume), node_root=root)
    assert prepare(asked, objects).paths["v"] == share


def test_a_path_that_the_server_does_not_have_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(MissingReference, match=r"10\.0\.0\.9:/shares/models failed, reason"):
        shares.mounted(tmp_path, NFS)


@pytest.mark.parametrize(("server", "path"), [("../x", "/a"), ("..", "/a"), ("s", "/a/../../b")])
def test_no_share_leads_out_of_its_server(tmp_path: Path, server: str, path: str) -> None:
    with pytest.raises(Unsupported, match="does not name a directory of a server"):
        shares.directory(tmp_path, server, path)


def claimed(tmp_path: Path, phase: str, node: str) -> Path:
    """Where a pod on that node finds the claim `models`."""
    objects = Objects()
    claim = {"metadata": {"name": "models", "uid": "c-1"}, "status": {"phase": phase}}
    objects.objects["persistentvolumeclaims", "models"] = claim
    root = tmp_path / "nodes" / node / "root"
    root.mkdir(parents=True)
    asked = {"name": "v", "persistentVolumeClaim": {"claimName": "models"}}
    on_node = replace(context(tmp_path, asked), node_root=root)
    return prepare(on_node, objects).paths["v"]


def test_a_bound_claim_is_one_directory_on_all_nodes_that_every_user_may_write(
    tmp_path: Path,
) -> None:
    first, second = (claimed(tmp_path, "Bound", node) for node in ("n1", "n2"))
    (first / "weights").write_text("w")
    assert (second / "weights").read_text() == "w"
    assert mode(first) == 0o777


def test_a_claim_that_is_not_bound_or_not_there_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(MissingReference, match='"models" is not bound'):
        claimed(tmp_path, "Pending", "n1")
    with pytest.raises(MissingReference, match='"none" not found'):
        made(tmp_path, {"persistentVolumeClaim": {"claimName": "none"}})
