"""The pages for people: links lead somewhere, commands are commands, paths exist."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from slicewright.cli import COMMANDS
from slicewright.commands import module_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for place in (".", "docs", ".github", "rehearsal/host/toolchain")
    for page in (ROOT / place).glob("**/*.md" if place in ("docs", ".github") else "*.md")
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^( *)```(?:sh|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?slicewright (?![(\[])(.*)$", re.MULTILINE)
_INLINE = re.compile(r"`(?:\.venv/bin/)?slicewright ([a-zA-Z-]+)((?: [^`]*)?)`")
_PATH = re.compile(
    r"`((?:apis|infra|node_agent|fleet_controller|kubeapi|telemetry|slicewright|rehearsal|policy|gitops"
    r"|stacks|tests|benchmarks|docs)/[^`\s]*)`"
)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    """As GitHub derives them from headings; the second heading of a name gets `-1`."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in anchors:
            number += 1
        anchors.add(anchor)
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        whole_page = not anchor or there.suffix != ".md"
        if not there.exists() or not (whole_page or anchor in _anchors(there)):
            broken.append(target)
    assert broken == []


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {
        (index.parent / target.partition("#")[0]).resolve()
        for target in _LINK.findall(index.read_text())
    }
    assert [_name(page) for page in (ROOT / "docs").rglob("*.md") if page not in linked] == [
        "docs/README.md"
    ]


class _Strict(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _commands(page: Path) -> Iterator[str]:
    for _, block in _SHELL.findall(page.read_text()):
        yield from _COMMAND.findall(block.replace("\\\n", " "))


def _words(command: str) -> list[str]:
    """Up to what the shell does with the output, or to a comment."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            break
        words.append(word)
    return words[:-1] if words[-1:] == ["2"] else words


@pytest.fixture(scope="module")
def parsers() -> dict[str, argparse.ArgumentParser]:
    """Of all commands, by name."""
    parser = _Strict(prog="slicewright", exit_on_error=False)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Strict)
    for name in COMMANDS:
        module_of(name).add_parser(commands)
    return dict(commands.choices)


def test_every_command_of_a_code_block_can_be_parsed(
    parsers: dict[str, argparse.ArgumentParser],
) -> None:
    tried, wrong = set(), []
    for page in PAGES:
        for command in _commands(page):
            name, *arguments = _words(command)
            tried.add(name)
            try:
                parsers[name].parse_args(arguments)
            except (KeyError, ValueError, argparse.ArgumentError) as e:
                wrong.append(f"{_name(page)}: slicewright {command}: {e}")
    assert wrong == []
    assert tried >= {"check", "plan", "rights", "rehearse", "status", "rollout"}


def _options(parser: argparse.ArgumentParser) -> set[str]:
    options = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            options = options.union(*(_options(below) for below in action.choices.values()))
    return options


def test_every_command_in_a_sentence_exists_with_its_options(
    parsers: dict[str, argparse.ArgumentParser],
) -> None:
    tried, wrong = 0, []
    for page in PAGES:
        for name, rest in _INLINE.findall(page.read_text()):
            tried += 1
            known = _options(parsers[name]) if name in parsers else {"--help", "--version"}
            if name not in parsers and name not in ("COMMAND", "--help", "--version"):
                wrong.append(f"{_name(page)}: slicewright {name}")
            wrong += [
                f"{_name(page)}: slicewright {name} {option}"
                for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest)
                if option not in known
            ]
    assert wrong == []
    assert tried > 100


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_every_path_of_a_map_exists(page: str) -> None:
    missing = []
    for named in _PATH.findall((ROOT / page).read_text()):
        path = named.partition("::")[0]
        head, brace, rest = path.partition("{")
        choices, _, tail = rest.partition("}")
        for choice in choices.split(",") if brace else [""]:
            wanted = f"{head}{choice}{tail}"
            if not re.search("<|NAME", wanted) and not list(ROOT.glob(wanted.rstrip("/"))):
                missing.append(wanted)
    assert missing == []
