"""The providers' schemas match the installed SDKs, and contain everything the providers declare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright import rehearsal
from slicewright.rehearsal.plugins.bridge.extract_schemas import RESOURCES, extract
from slicewright.rehearsal.plugins.bridge.schema import Schema
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider

PROVIDERS = {"gcp": GcpProvider, "aws": AwsProvider}


@pytest.mark.parametrize("package", ["gcp", "aws"])
def test_the_schemas_match_the_installed_sdks(package: str) -> None:
    """If it fails: python -m slicewright.rehearsal.plugins.bridge.extract_schemas"""
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
    """A misspelt path in a force_new list would silently mean an in-place update."""
    provider = PROVIDERS[package]
    resource = provider.resources[token]
    for path in [*resource.force_new, *resource.sets, *resource.keeps]:
        assert path in GONE or exists(provider.schema, token, path), path
    if resource.autoname:
        assert exists(provider.schema, token, resource.autoname.property)


@pytest.mark.parametrize(("package", "token"), [(p, t) for p, ts in RESOURCES.items() for t in ts])
def test_outputs_that_are_unknown_in_previews_exist(package: str, token: str) -> None:
    provider = PROVIDERS[package]
    assert set(provider.resources[token].update_unknowns) <= set(provider.schema.outputs(token))
