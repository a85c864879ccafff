"""The engine's gRPC stubs, imported without the rest of the Pulumi SDK.

The stubs are inside the `pulumi` package, and importing that loads the whole SDK: half of a
plugin's start time. So empty packages take its place in sys.modules while the stubs are imported,
and are removed afterwards: a later `import pulumi` gets the real one.
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


def _insert_empty_packages() -> list[str]:
    if "pulumi" in sys.modules:
        return []
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "the engine's gRPC stubs are part of the `pulumi` package, which is not installed; run "
            "`make setup`"
        )
    directory = Path(next(iter(spec.submodule_search_locations)))
    for name in _PARENTS:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
        directory = directory / {"pulumi": "runtime", "pulumi.runtime": "proto"}.get(name, "")
    return list(_PARENTS)


_empty = _insert_empty_packages()
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
