"""Argo CD's health checks of `gitops/argocd`, run by Lua 5.1.

Argo CD's own interpreter is gopher-lua: the checks keep to what Lua 5.1 defines.
"""

from __future__ import annotations

from typing import Any

import yaml
from lupa import lua51

from tests.gitops.pipelines import ROOT


def health(kind: str, found: dict[str, Any]) -> str:
    """The health status that Argo CD shows of an object. kind: GROUP_KIND."""
    config = yaml.safe_load((ROOT / "gitops" / "argocd" / "argocd-cm.yaml").read_text())["data"]
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = _table(lua, found)
    answer = lua.execute(config[f"resource.customizations.health.{kind}"])
    assert answer["message"]
    return str(answer["status"])


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: _table(lua, one) for key, one in value.items()})
    if isinstance(value, list):
        return lua.table_from([_table(lua, one) for one in value])
    return value
