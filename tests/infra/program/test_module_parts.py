from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from types import ModuleType

import pynvml
import pytest

from slicewright.infra import module_parts

SOURCE = '''\
# The licence.

"""What the module is."""
import os, sys
import string
from ctypes import *
from functools import wraps

A = 1
B = (A, os.name)
C = D = 2

def used():
    return B

@wraps(len)
def decorated():
    return string.digits

class Table(Structure):
    _fields_ = [("a", c_uint), ("b", c_char * C)]

def unused():
    return Table

_set_up = {}
print(_set_up)
'''


def loaded(source: str, directory: Path) -> ModuleType:
    file = directory / "parts.py"
    file.write_text(source)
    found = importlib.util.spec_from_file_location("parts", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_names_of_a_module_are_the_attributes_that_sources_use() -> None:
    sources = ["import x\nx.a\nx.b.c(y.d)", "def f():\n    return x.e[x.a]"]
    assert module_parts.names_of("x", sources) == {"a", "b", "e"}


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ({"A"}, ["A = 1"]),
        ({"D"}, ["C = D = 2"]),
        ({"used"}, ["import os, sys", "A = 1", "B = (A, os.name)", "def used():", "    return B"]),
        (
            {"decorated"},
            [
                "import string",
                "from functools import wraps",
                "@wraps(len)",
                "def decorated():",
                "    return string.digits",
            ],
        ),
        (
            {"Table"},
            [
                "C = D = 2",
                "class Table(Structure):",
                '    _fields_ = [("a", c_uint), ("b", c_char * C)]',
            ],
        ),
    ],
)
def test_only_the_dependencies_of_the_names_remain(names: set[str], kept: list[str]) -> None:
    left = module_parts.only(frozenset(names), SOURCE).splitlines()
    assert left[:2] == ["# The licence.", ""]
    assert [line for line in left[2:] if line != "from ctypes import *"] == kept


def test_missing_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        module_parts.only(frozenset({"nothing"}), SOURCE)


def test_a_module_with_other_statements_is_refused() -> None:
    with pytest.raises(module_parts.CannotTell, match="line 2: If"):
        module_parts.only(frozenset({"A"}), "A = 1\nif A:\n    B = 2\n")


def test_reduced_pynvml_behaves_like_pynvml(tmp_path: Path) -> None:
    agent = (Path(__file__).parents[3] / "node_agent").rglob("*.py")
    names = module_parts.names_of("pynvml", (file.read_text() for file in agent))
    assert len(names) > 30
    source = Path(pynvml.__file__).read_text()
    less = module_parts.only(names, source)
    assert len(less) < len(source) / 10
    assert "Redistribution and use in source and binary forms" in less
    parts = loaded(less, tmp_path)
    for name in names:
        ours, theirs = getattr(parts, name), getattr(pynvml, name)
        if isinstance(theirs, type) and issubclass(theirs, ctypes.Structure):
            assert ctypes.sizeof(ours) == ctypes.sizeof(theirs), name
            assert [f[0] for f in ours._fields_] == [f[0] for f in theirs._fields_], name
        elif isinstance(theirs, int):
            assert ours == theirs, name
