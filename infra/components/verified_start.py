"""Starts a zipapp only if it holds the code that was deployed: the text of `python -c` in the pods.

Arguments: the archive, the SHA-256 of its files (Zipapp.sources_hash of
slicewright.infra.delivery), then the program's own. This text is in the pod template, not in the
ConfigMap that it checks. It reads the archive once, and runs the hashed bytes from memory. Exit
code 6: the archive cannot be read, or it does not hold the deployed code.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn

REFUSED = 6


class Code:
    """Imports modules from files in memory: path in the archive -> source."""

    def __init__(self, archive: str, files: dict[str, bytes]) -> None:
        self.archive, self.files = archive, files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        for end in ("/__init__.py", ".py"):
            inside = name.replace(".", "/") + end
            if inside in self.files:
                origin = f"{self.archive}/{inside}"
                spec = ModuleSpec(name, self, origin=origin, is_package=end != ".py")  # type: ignore[arg-type]
                spec.loader_state, spec.has_location = inside, True
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        self.run(module.__spec__.loader_state, vars(module))

    def run(self, inside: str, namespace: dict[str, Any]) -> None:
        code = compile(self.files[inside], f"{self.archive}/{inside}", "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 - hashed code of our own


def start() -> None:
    _, archive, expected_hash, *arguments = sys.argv
    sys.argv[:] = [archive, *arguments]
    try:
        with zipfile.ZipFile(io.BytesIO(Path(archive).read_bytes())) as opened:
            files = {name: opened.read(name) for name in sorted(opened.namelist())}
    except Exception as e:  # noqa: BLE001 - whatever the archive makes zipfile raise
        refuse(archive, f"it cannot be read: {type(e).__name__}: {e}")
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    if digest.hexdigest() != expected_hash:
        refuse(
            archive,
            f"the SHA-256 of its files is {digest.hexdigest()}, but the deployed files have "
            f"{expected_hash}. Its ConfigMap has been replaced: find out who did it (the API "
            "server's audit log), delete it, and run `pulumi up --refresh`",
        )
    code = Code(archive, files)
    sys.meta_path.insert(0, code)
    code.run("__main__.py", {"__name__": "__main__"})


def refuse(archive: str, why: str) -> NoReturn:
    print(f"{archive}: not started: {ascii(why)[1:-1]}", file=sys.stderr)
    sys.exit(REFUSED)


if __name__ == "__main__":
    start()
