"""The schemas beside the providers are those of the installed SDKs, and what the providers declare
exists in them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rehearsal
from rehearsal.plugins.bridge.extract_schemas import RESOURCES, extract
from rehearsal.plugins.bridge.schema import Schema
from rehearsal.plugins.providers.aws.provider import AwsProvider
from rehearsal.plugins.providers.gcp.provider import GcpProvider

PROVIDERS = {"gcp": GcpProvider, "aws": AwsProvider}


@pytest.mark.parametrize("package", ["gcp", "aws"])
def test_the_schema_is_the_installed_sdks(package: str) -> None:
    """Else: python -m rehearsal.plugins.bridge.extract_schemas"""
    stored = json.loads(
        (
            Path(rehearsal.__file__).parent / "plugins" / "providers" / package / "schema.json"
        ).read_text()
    )
    assert stored == extract(package, RESOURCES[package])


@pytest.mark.parametrize("package", ["gcp", "aws"])
def test_every_type_that_a_program_may_use_is_simulated(package: str) -> None:
    assert set(PROVIDERS[package].resources) == set(RESOURCES[package])


def exists(schema: Schema, token: str, path: str) -> bool:
    properties = schema.inputs(token)
    for name in path.split("."):
        if name not in properties:
            return False
        kind = properties[name]["type"]
        while isinstance(kind, dict) and "list" in kind:
            kind = kind["list"]
        properties = (
            schema.types[kind["object"]] if isinstance(kind, dict) and "object" in kind else {}
        )
    return True


# Older names that the provider's rules still list, and that this SDK no longer has.
GONE = {"nodeConfig.ephemeralStorageConfig"}


@pytest.mark.parametrize(("package", "token"), [(p, t) for p, ts in RESOURCES.items() for t in ts])
def test_every_declared_path_is_a_property(package: str, token: str) -> None:
    """A slip of the pen in a force-new list would pass for "in place"."""
    provider = PROVIDERS[package]
    resource = provider.resources[token]
    for path in [*resource.force_new, *resource.sets, *resource.keeps]:
        assert path in GONE or exists(provider.schema, token, path), path
    if resource.autoname:
        assert exists(provider.schema, token, resource.autoname.property)


@pytest.mark.parametrize(("package", "token"), [(p, t) for p, ts in RESOURCES.items() for t in ts])
def test_outputs_that_previews_leave_open_are_outputs(package: str, token: str) -> None:
    provider = PROVIDERS[package]
    assert set(provider.resources[token].update_unknowns) <= set(provider.schema.outputs(token))
