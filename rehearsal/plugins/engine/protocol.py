"""The engine's gRPC messages, without the SDK around them.

The stubs lie inside the `pulumi` package, whose own import reads in the whole SDK: half of a
plugin's start. So the packages above them stand empty while the stubs are read, and are taken away
again: a later `import pulumi` gets the real one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_PARENTS = ("pulumi", "pulumi.runtime", "pulumi.runtime.proto")


def _stub(name: str) -> Any:
    return importlib.import_module(f"pulumi.runtime.proto.{name}")


def _stand_empty() -> list[str]:
    if "pulumi" in sys.modules:
        return []
    found = importlib.util.find_spec("pulumi")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "the engine's protocol comes with the `pulumi` package, which is not installed "
            "here; run `uv sync`"
        )
    directory = Path(next(iter(found.submodule_search_locations)))
    for name in _PARENTS:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
        directory = directory / {"pulumi": "runtime", "pulumi.runtime": "proto"}.get(name, "")
    return list(_PARENTS)


_empty = _stand_empty()
try:
    provider_pb2 = _stub("provider_pb2")
    provider_pb2_grpc = _stub("provider_pb2_grpc")
    language_pb2 = _stub("language_pb2")
    language_pb2_grpc = _stub("language_pb2_grpc")
    engine_pb2 = _stub("engine_pb2")
    engine_pb2_grpc = _stub("engine_pb2_grpc")
    plugin_pb2 = _stub("plugin_pb2")
finally:
    for _name in _empty:
        del sys.modules[_name]
