"""Every rule through `pulumi preview --policy-pack`: what it refuses, and what it lets pass.

The program registers the cases' resources as they are, with a provider that takes anything.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policy.rules import RULES, Resource, StackRule
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine import language_host
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    Created,
    Difference,
    ProviderPlugin,
    ReadBack,
)
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.engine.provider_server import AttachedServer
from slicewright.rehearsal.plugins.engine.requests import (
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)
from tests.infra.cloud_engine import CloudEngine, cloud_engine
from tests.policy.cases import CASES, Case
from tests.policy.test_on_engine import with_pack

_OF_THE_STACK = "stack-secrets"
"""It judges the stack itself, which no program registers: test_on_engine.py."""
_STACK_RULES = {rule.name for rule in RULES if isinstance(rule, StackRule)}
_PROGRAM = """\
import json
from pathlib import Path

import pulumi

for number, one in enumerate(json.loads(Path("resources.json").read_text())):
    provider = None
    if one["provider"]:
        package = one["type"].partition(":")[0]
        provider = pulumi.ProviderResource(package, f"p{number}", one["provider"])
    options = pulumi.ResourceOptions(protect=one["protect"], provider=provider)
    pulumi.CustomResource(one["type"], one["name"], one["props"], options)
"""


class Anything(ProviderPlugin):
    """Knows no resource, and takes every one."""

    version = "999.0.0"

    def configure(self, request: ConfigureRequest) -> None:
        pass

    def check(self, request: CheckRequest) -> Checked:
        return Checked(request.new_inputs)

    def diff(self, request: DiffRequest) -> Difference:
        return Difference(changes=False)

    def create(self, request: CreateRequest) -> Created:
        return Created("" if request.preview else "made", request.inputs)

    def read(self, request: ReadRequest) -> ReadBack | None:
        return None

    def update(self, request: UpdateRequest) -> Properties:
        return request.new_inputs

    def delete(self, request: DeleteRequest) -> None:
        pass


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain, policy_environment: Path
) -> Iterator[CloudEngine]:
    with ExitStack() as ends:
        directory = tmp_path_factory.mktemp("engine")
        engine = ends.enter_context(cloud_engine(directory, toolchain))
        host = directory / "bin" / "pulumi-language-python"
        host.parent.mkdir()
        host.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m {language_host.__name__} \"$@\"\n")
        host.chmod(0o755)
        ports = {
            name: ends.enter_context(AttachedServer(Anything)).port
            for name in ("aws", "gcp", "kubernetes")
        }
        variables = {
            **engine.variables,
            "PATH": f"{host.parent}:{engine.variables['PATH']}",
            "PULUMI_DEBUG_PROVIDERS": ",".join(f"{name}:{at}" for name, at in ports.items()),
        }
        (engine.directory / "__main__.py").write_text(_PROGRAM)
        yield replace(engine, variables=variables)


def firsts() -> Mapping[str, Case]:
    """The first case of each rule."""
    return {case.rule: case for case in reversed(CASES) if case.rule != _OF_THE_STACK}


def named(case: Case, resources: Sequence[Resource]) -> list[Resource]:
    """Under names that say whose they are."""
    return [replace(r, name=f"{case.rule}.{n}") for n, r in enumerate(resources)]


def findings(
    engine: CloudEngine, directory: Path, resources: Sequence[Resource], cases: Sequence[Case]
) -> tuple[int, set[tuple[str, str, str]]]:
    """Exit code; level, rule and resource of all that a preview says."""
    declared = [
        {k: getattr(one, k) for k in ("type", "name", "props", "provider", "protect")}
        for one in resources
    ]
    (engine.directory / "resources.json").write_text(json.dumps(declared))
    settings: dict[str, Any] = {case.rule: case.settings for case in cases if case.settings}
    ran = engine.run("preview", *with_pack(directory, **settings))
    assert "can't run policy" not in ran.output
    row = re.compile(r"- \[(\w+)\] +([\w-]+) +\([^()]*: ([^()]+)\)")
    return ran.code, {(level, rule, name) for level, rule, name in row.findall(ran.output)}


def of_one_resource() -> list[Case]:
    """Those of rules that judge each resource alone: their resources do not change one another's
    verdict, so that one preview has them all.
    """
    return [case for case in firsts().values() if case.rule not in _STACK_RULES]


def test_every_rule_refuses_its_violation_in_a_preview(engine: CloudEngine, tmp_path: Path) -> None:
    cases = of_one_resource()
    wrong = [one for case in cases for one in named(case, case.refused)]
    code, found = findings(engine, tmp_path, wrong, cases)
    assert code != 0
    levels = {rule.name: rule.level for rule in RULES}
    for case in cases:
        of_rule = {(level, name) for level, said, name in found if said == case.rule}
        assert {level for level, _ in of_rule} == {levels[case.rule]}, case.rule
        assert any(name.startswith(f"{case.rule}.") for _, name in of_rule), case.rule


def test_every_rule_passes_the_nearest_correct_resource_in_a_preview(
    engine: CloudEngine, tmp_path: Path
) -> None:
    cases = of_one_resource()
    right = [one for case in cases for one in named(case, case.passed)]
    _, found = findings(engine, tmp_path, right, cases)
    assert [one for one in found if one[2].startswith(f"{one[1]}.")] == []
    # Of another rule's resources it finds something: it has looked.
    assert found


@pytest.mark.parametrize("rule", sorted(_STACK_RULES - {_OF_THE_STACK}))
def test_a_rule_about_all_resources_together_refuses_them_and_passes_the_nearest_that_are_right(
    engine: CloudEngine, tmp_path: Path, rule: str
) -> None:
    case = firsts()[rule]
    (level,) = (one.level for one in RULES if one.name == rule)
    code, found = findings(engine, tmp_path, named(case, case.refused), [case])
    assert {said for said, name, _ in found if name == rule} == {level}
    assert code != 0 or level == "advisory"
    _, found = findings(engine, tmp_path, named(case, case.passed), [case])
    assert rule not in {name for _, name, _ in found}
