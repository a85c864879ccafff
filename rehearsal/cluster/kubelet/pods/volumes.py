"""A pod's volumes as directories and files on this machine, from which they are bind-mounted."""

from __future__ import annotations

import base64
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
    field_value,
)
from slicewright.rehearsal.cluster.kubelet.pods import shares
from slicewright.rehearsal.cluster.kubelet.pods.sources import Sources
from slicewright.rehearsal.cluster.node import privileges

_DEFAULT_MODE = 0o644


@dataclass(frozen=True, kw_only=True)
class TokenFile:
    """A projected service-account token, renewed while the pod runs."""

    path: Path
    audience: str | None
    expiration_s: int
    owner: int | None
    mode: int
    """Used without an owner."""


@dataclass(frozen=True, kw_only=True)
class PodVolumes:
    paths: Mapping[str, Path]
    """Directory or file on this machine, by volume name."""
    tokens: tuple[TokenFile, ...]


@dataclass(frozen=True, kw_only=True)
class VolumeContext:
    """What the volumes of one pod depend on."""

    pod: JsonObject
    directory: Path
    """The pod's own directory on this machine."""
    node_root: Path
    pod_ip: str
    host_ip: str
    owner: int | None
    """The runAsUser that all containers share; it then owns the volumes' files."""


def prepare(context: VolumeContext, sources: Sources) -> PodVolumes:
    """Writes every volume of the pod. Idempotent.

    A running pod sees later changes of ConfigMaps and Secrets only by `follow`; the product's are
    immutable. Raises MissingReference, Unsupported, ApiError, Unreachable.
    """
    paths: dict[str, Path] = {}
    tokens: list[TokenFile] = []
    for volume in context.pod["spec"].get("volumes") or ():
        paths[volume["name"]] = _prepare_one(context, sources, volume, tokens)
    return PodVolumes(paths=paths, tokens=tuple(tokens))


def follow(context: VolumeContext, sources: Sources) -> None:
    """Writes what has changed of the pod's ConfigMaps and Secrets, but for those that are projected
    with others. Raises as `prepare`.
    """
    for volume in context.pod["spec"].get("volumes") or ():
        if "configMap" in volume or "secret" in volume:
            _prepare_one(context, sources, volume, [])


def reboot(context_directory: Path, pod: JsonObject) -> None:
    """Empties the pod's emptyDir volumes in memory; those on the node's disk survive a reboot."""
    for volume in pod["spec"].get("volumes") or ():
        if (volume.get("emptyDir") or {}).get("medium") == "Memory":
            shutil.rmtree(context_directory / "volumes" / volume["name"], ignore_errors=True)


def refresh(context: VolumeContext, sources: Sources, token: TokenFile) -> float:
    """Writes a new token; returns its lifetime in seconds. Raises ApiError, Unreachable."""
    text, lives_s = sources.token(context.pod, token.audience, token.expiration_s)
    # With one user for all containers the file is that user's; otherwise it is root's with the
    # volume's mode, so that every user of the pod can read it. Source:
    # collectData, k8s.io/kubernetes v1.36.2, pkg/volume/projected/projected.go.
    _write(token.path, text.encode(), token.mode if token.owner is None else 0o600, token.owner)
    return lives_s


def _prepare_one(
    context: VolumeContext, sources: Sources, volume: JsonObject, tokens: list[TokenFile]
) -> Path:
    name = volume["name"]
    if "hostPath" in volume:
        return _host_path(context.node_root, volume["hostPath"], name)
    if "persistentVolumeClaim" in volume:
        return _claimed(context, sources, volume["persistentVolumeClaim"]["claimName"])
    if "nfs" in volume:
        return shares.mounted(_environment(context), volume["nfs"])
    directory: Path = context.directory / "volumes" / name
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    directory.chmod(0o755)
    if "emptyDir" in volume:
        directory.chmod(0o777)  # as the real kubelet: any user of the pod may write
    elif "configMap" in volume:
        _write_object(
            context,
            sources,
            directory,
            "configmaps",
            volume["configMap"],
            volume["configMap"].get("name", ""),
        )
    elif "secret" in volume:
        _write_object(
            context,
            sources,
            directory,
            "secrets",
            volume["secret"],
            volume["secret"].get("secretName", ""),
        )
    elif "downwardAPI" in volume:
        _write_fields(context, directory, volume["downwardAPI"])
    elif "projected" in volume:
        mode = volume["projected"].get("defaultMode", _DEFAULT_MODE)
        for source in volume["projected"].get("sources") or ():
            _write_projected(context, sources, directory, source, mode, tokens)
    else:
        kind = ", ".join(sorted(set(volume) - {"name"}))
        raise Unsupported(f"volume {name!r}: the kubelet stand-in does not support {kind} volumes")
    return directory


def _write_projected(
    context: VolumeContext,
    sources: Sources,
    directory: Path,
    source: JsonObject,
    mode: int,
    tokens: list[TokenFile],
) -> None:
    if "serviceAccountToken" in source:
        asked = source["serviceAccountToken"]
        token = TokenFile(
            path=directory / asked["path"],
            audience=asked.get("audience") or None,
            expiration_s=int(asked.get("expirationSeconds", 3600)),
            owner=context.owner,
            mode=mode,
        )
        tokens.append(token)
        refresh(context, sources, token)
    elif "configMap" in source:
        _write_object(
            context,
            sources,
            directory,
            "configmaps",
            {"defaultMode": mode, **source["configMap"]},
            source["configMap"]["name"],
        )
    elif "secret" in source:
        _write_object(
            context,
            sources,
            directory,
            "secrets",
            {"defaultMode": mode, **source["secret"]},
            source["secret"]["name"],
        )
    elif "downwardAPI" in source:
        _write_fields(context, directory, {"defaultMode": mode, **source["downwardAPI"]})
    else:
        raise Unsupported(
            f"the kubelet stand-in does not support projected {', '.join(sorted(source))}"
        )


def _write_object(
    context: VolumeContext,
    sources: Sources,
    directory: Path,
    kind: str,
    reference: JsonObject,
    name: str,
) -> None:
    found = sources.find(kind, context.pod["metadata"]["namespace"], name)
    optional = bool(reference.get("optional"))
    if found is None:
        if optional:
            return
        raise MissingReference(f'{kind.removesuffix("s")} "{name}" not found')
    data = {k: base64.b64decode(v) for k, v in (found.get("binaryData") or {}).items()}
    if kind == "secrets":
        data.update({k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()})
    else:
        data.update({k: v.encode() for k, v in (found.get("data") or {}).items()})
    mode = int(reference.get("defaultMode", _DEFAULT_MODE))
    items = reference.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] not in data:
            if optional:
                continue
            raise MissingReference(
                f"references non-existent config key: {item['key']} (in "
                f"{kind.removesuffix('s')} {name!r})"
            )
        _write(
            directory / item["path"], data[item["key"]], int(item.get("mode", mode)), context.owner
        )


def _write_fields(context: VolumeContext, directory: Path, reference: JsonObject) -> None:
    mode = int(reference.get("defaultMode", _DEFAULT_MODE))
    for item in reference.get("items") or ():
        if "fieldRef" not in item:
            raise Unsupported(
                f"downwardAPI {item['path']!r}: the kubelet stand-in does not support "
                "resourceFieldRef"
            )
        value = field_value(
            context.pod,
            item["fieldRef"]["fieldPath"],
            pod_ip=context.pod_ip,
            host_ip=context.host_ip,
        )
        _write(directory / item["path"], value.encode(), int(item.get("mode", mode)), context.owner)


def _is_the_same(path: Path, data: bytes, mode: int) -> bool:
    try:
        return stat.S_IMODE(path.lstat().st_mode) == mode and path.read_bytes() == data
    except OSError:
        return False


def _write(path: Path, data: bytes, mode: int, owner: int | None) -> None:
    """Replaces the file atomically, as pods read it; it is never readable by other users.

    A file with the same content stays: programs that watch it see no change.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_the_same(path, data, mode):
        return
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(descriptor, mode)
        # In a user namespace one user is mapped, to which all files must belong.
        if owner is not None and privileges.own().sys_admin:
            os.fchown(descriptor, owner, -1)
    finally:
        os.close(descriptor)
    temporary.replace(path)


def _claimed(context: VolumeContext, sources: Sources, name: str) -> Path:
    """A directory for all pods of a claim, on whichever nodes: the NFS share of its volume, or one
    that is empty at first, and goes with the cluster.
    """
    found = sources.find("persistentvolumeclaims", context.pod["metadata"]["namespace"], name)
    if found is None:
        raise MissingReference(f'persistentvolumeclaim "{name}" not found')
    if (found.get("status") or {}).get("phase") != "Bound":
        raise MissingReference(f'persistentvolumeclaim "{name}" is not bound')
    if volume := (found.get("spec") or {}).get("volumeName"):
        bound = sources.find("persistentvolumes", "", volume) or {}
        if nfs := (bound.get("spec") or {}).get("nfs"):
            return shares.mounted(_environment(context), nfs)
    # node_root is clusters/<cluster>/nodes/<node>/root.
    directory: Path = context.node_root.parents[2] / "claims" / found["metadata"]["uid"]
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o777)
    return directory


def _environment(context: VolumeContext) -> Path:
    return context.node_root.parents[4]


def _host_path(node_root: Path, reference: JsonObject, name: str) -> Path:
    """The path below the simulated node's root. Type checks: Kubernetes, pkg/volume/hostpath."""
    wanted = str(reference["path"])
    kind = reference.get("type") or ""
    if wanted == "/dev/null" and kind in ("", "CharDevice"):
        return Path(wanted)  # the same on every machine
    path = (node_root / wanted.lstrip("/")).resolve()
    if not path.is_relative_to(node_root.resolve()):
        raise Unsupported(f"volume {name!r}: hostPath {wanted!r} leads out of the simulated node")
    if kind == "DirectoryOrCreate" or (kind == "" and not path.exists()):
        # With an empty type the container runtime creates a missing directory.
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate" and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o644)
    matches = {
        "": lambda mode: True,
        "Directory": stat.S_ISDIR,
        "DirectoryOrCreate": stat.S_ISDIR,
        "File": stat.S_ISREG,
        "FileOrCreate": stat.S_ISREG,
        "Socket": stat.S_ISSOCK,
        "CharDevice": stat.S_ISCHR,
        "BlockDevice": stat.S_ISBLK,
    }
    if kind not in matches:
        raise Unsupported(
            f"volume {name!r}: hostPath type {kind!r} must be one of "
            f"{', '.join(sorted(filter(None, matches)))}"
        )
    if not path.exists() or not matches[kind](path.stat().st_mode):
        raise MissingReference(f"hostPath type check failed: {wanted} is not a {kind or 'path'}")
    return path
