"""Zipapps of agent and controller, built from the installed sources: no image to build or push.

Equal sources give equal archives: sorted, without bytecode, with fixed times. The hash covers names
and contents rather than the archive, because zlib may compress differently on another machine.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from slicewright.infra import module_parts

MAX_BYTES: Final = 700 * 1024
"""A ConfigMap holds 1 MiB; this leaves a margin."""
_FILE_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time in the zip format."""
_EXCLUDED: Final[Mapping[str, tuple[str, ...]]] = {"urllib3": ("contrib",)}
"""Parts of urllib3 that it imports only on request; a test runs without them."""


class DeliveryError(Exception):
    """A zipapp cannot be built; the message states the missing or oversized part."""


@dataclass(frozen=True, kw_only=True)
class Zipapp:
    name: str
    """File name, for example node_agent.pyz."""
    content: bytes
    sources_hash: str
    """SHA-256 over every file's name and content. The pods refuse an archive with another hash."""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.content).decode()

    @property
    def short_hash(self) -> str:
        return self.sources_hash[:8]

    def difference(self, live: str | None) -> str | None:
        """How another archive (base64) differs from this one; None if their files are equal.

        Names and contents are compared, not bytes: zlib may compress differently elsewhere.
        """
        if live is None:
            return f"{self.name} is missing"
        try:
            live_files = _files(base64.b64decode(live, validate=True))
        except ValueError as e:
            return f"{self.name}: {e}"
        files = _files(self.content)
        differing = sorted(p for p in {*files, *live_files} if files.get(p) != live_files.get(p))
        if not differing:
            return None
        return f"{self.name}: {len(differing)} of its files differ, the first is {differing[0]}"


@cache
def node_agent() -> Zipapp:
    """The agent with API client and HTTP/2 (kubelet). Raises DeliveryError."""
    packages = (
        "slicewright.node_agent",
        "slicewright.apis",
        "slicewright.kubeapi",
        "slicewright.telemetry",
        "urllib3",
        "pynvml",
        "h2",
        "hpack",
        "hyperframe",
    )
    # pynvml declares all of NVML in 8,000 lines, which Python would compile at each start.
    return build("node_agent.pyz", packages, "slicewright.node_agent.cli", used_parts_of="pynvml")


@cache
def fleet_controller() -> Zipapp:
    """The controller with the API client. Raises DeliveryError."""
    return build(
        "fleet_controller.pyz",
        (
            "slicewright.fleet_controller",
            "slicewright.apis",
            "slicewright.kubeapi",
            "slicewright.telemetry",
            "urllib3",
        ),
        "slicewright.fleet_controller.cli",
    )


def build(
    name: str, packages: tuple[str, ...], entry: str, *, used_parts_of: str | None = None
) -> Zipapp:
    """Builds a zipapp of installed packages that runs `entry`.main(). Raises DeliveryError.

    used_parts_of: a module that is reduced to the parts that the entry's package uses.
    """
    files = {
        "__main__.py": f"import sys\n\nfrom {entry} import main\n\nsys.exit(main())\n".encode()
    }
    for package in packages:
        files.update(_parents(package))
        files.update(_sources(package))
    if entry.replace(".", "/") + ".py" not in files:
        raise DeliveryError(f"{name}: module {entry} is missing")
    if used_parts_of:
        files.update(_used_parts(used_parts_of, entry.rpartition(".")[0], files))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for path, content in sorted(files.items()):
            entry_info = zipfile.ZipInfo(path, _FILE_TIME)
            entry_info.compress_type = zipfile.ZIP_DEFLATED
            entry_info.create_system = 3  # Unix, also when built on Windows
            entry_info.external_attr = 0o100644 << 16
            zipped.writestr(entry_info, content, compresslevel=9)
    content = archive.getvalue()
    if len(content) > MAX_BYTES:
        raise DeliveryError(
            f"{name}: {len(content)} bytes; must be at most {MAX_BYTES} to fit into a ConfigMap"
        )
    return Zipapp(name=name, content=content, sources_hash=hash_of(files))


def hash_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 over paths and contents, as infra/components/verified_start.py checks it."""
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _files(archive: bytes) -> dict[str, bytes]:
    """Maps path to content. Raises ValueError if it is no archive or has a path twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            names = opened.namelist()
            if len(set(names)) != len(names):
                raise ValueError("it contains a path twice")
            return {name: opened.read(name) for name in names}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as e:
        # RuntimeError: encrypted. NotImplementedError: another compression.
        raise ValueError("it is not a readable archive") from e


def _used_parts(module: str, user: str, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    path, directory = f"{module}.py", user.replace(".", "/")
    code = [content.decode() for at, content in files.items() if at.startswith(f"{directory}/")]
    names = module_parts.names_of(module, code)
    try:
        return {path: module_parts.only(names, files[path].decode()).encode()}
    except module_parts.CannotTell as e:
        raise DeliveryError(f"{path} of this version cannot be reduced: {e}") from e
    except KeyError as e:
        raise DeliveryError(f"{user} uses {module}.{e.args[0]}, which {path} does not have") from e


def _parents(package: str) -> Iterator[tuple[str, bytes]]:
    """The packages around a package, empty: a zipapp needs none of their own modules."""
    for parent in PurePosixPath(package.replace(".", "/")).parents:
        if parent.name:
            yield f"{parent}/__init__.py", b""


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    module_spec = importlib.util.find_spec(package)
    if module_spec is None or module_spec.origin is None:
        raise DeliveryError(f"package {package} is not installed here, and the zipapp needs it")
    directory = package.replace(".", "/")
    if not module_spec.submodule_search_locations:
        yield f"{directory}.py", Path(module_spec.origin).read_bytes()
        return
    root = Path(module_spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if inside.parts[0] not in _EXCLUDED.get(package, ()):
            yield f"{directory}/{inside.as_posix()}", path.read_bytes()
