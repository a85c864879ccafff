"""Every import contract of pyproject.toml is broken by an import that it forbids.

A contract can be kept by accident: one that forbids a package whose own modules are the importers
holds of any code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.application import use_cases
from importlinter.domain.contract import Contract, registry

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("apis", "infra", "node_agent", "fleet_controller", "kubeapi", "telemetry", "rehearsal")
"""The packages behind the links in slicewright/."""

configuration.configure()
# As `lint-imports` does, the types of contracts are registered by their names.
OPTIONS = use_cases.read_user_options(str(ROOT / "pyproject.toml"))
use_cases._register_contract_types(OPTIONS)
CONTRACTS = OPTIONS.contracts_options


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    packages = OPTIONS.session_options["root_packages"]
    return grimp.build_graph(*packages, include_external_packages=True, cache_dir=None)


def contract(options: dict[str, Any]) -> Contract:
    kind = registry.get_contract_class(options["type"])
    return kind(
        name=options["name"], session_options=OPTIONS.session_options, contract_options=options
    )


def forbidden_imports(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Importer and imported module of imports that the contract forbids."""
    match options["type"]:
        case "forbidden":
            for importer in options["source_modules"]:
                for imported in options["forbidden_modules"]:
                    yield importer, imported
        case "layers":
            (container,) = options["containers"]
            floors = [[m.strip() for m in layer.split("|")] for layer in options["layers"]]
            for upper, lower in pairwise(floors):
                yield f"{container}.{lower[0]}", f"{container}.{upper[0]}"
        case "independence":
            if not options["modules"][0].endswith("*"):
                yield options["modules"][0], options["modules"][1]
            else:
                package = options["modules"][0].removesuffix(".*")
                yield f"{package}.aws", f"{package}.gcp"
        case "protected":
            for module in options["protected_modules"]:
                yield "slicewright.exit_codes", module
        case "acyclic_siblings":
            for ancestor in options["ancestors"]:
                first, second = CIRCLES[ancestor]
                yield first, second


CIRCLES = {
    "slicewright": ("slicewright.apis.names", "slicewright.infra.program"),
    "policy": ("policy.rules", "policy.pack"),
}
"""An import that closes a circle among the parts of each package."""


@pytest.mark.parametrize("options", CONTRACTS, ids=lambda options: options["name"])
def test_a_forbidden_import_breaks_the_contract(
    options: dict[str, Any], graph: grimp.ImportGraph
) -> None:
    rule = contract(options)
    assert rule.check(graph, verbose=False).kept
    imports = list(forbidden_imports(options))
    assert imports
    for importer, imported in imports:
        broken = deepcopy(graph)
        broken.add_import(
            importer=importer, imported=imported, line_number=1, line_contents="import it"
        )
        assert not rule.check(broken, verbose=False).kept, f"{importer} may import {imported}"


def test_every_module_of_the_command_line_is_forbidden_to_the_programs_in_the_cluster() -> None:
    (rule,) = (c for c in CONTRACTS if c["name"] == "what runs in the cluster stands alone")
    modules = {
        f"slicewright.{path.stem}"
        for path in (ROOT / "slicewright").iterdir()
        if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())
    }
    own = {f"slicewright.{part}" for part in PARTS} | {
        "slicewright.__init__",
        "slicewright.__main__",
    }
    assert modules - own <= set(rule["forbidden_modules"])


def test_no_text_imports_a_package_by_its_bare_name() -> None:
    """Programs inside strings of tests and pages, which ruff does not read."""
    bare = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(PARTS)})\b(?=[. ])", re.M)
    texts = [
        path
        for pattern in ("tests/**/*.py", "benchmarks/*.py", "docs/**/*.md", "gitops/**/*")
        for path in ROOT.glob(pattern)
        if path.is_file()
    ]
    assert texts
    assert [str(path) for path in texts if bare.search(path.read_text(errors="replace"))] == []
