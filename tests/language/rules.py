"""The rules of the language lint, as pure functions of a file's text.

Python files are checked for all rules, pages for WHAT and WHICH.

CONTRIBUTING.md, "Words", has the rules for people, with a sentence before and after for each.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final


class Rule(StrEnum):
    """What a finding violates; the value is the key in the table of allowances."""

    FRAGMENT = "fragment"
    PRONOUN = "pronoun"
    WHAT = "what"
    WHICH = "which"


ADVICE: Final = {
    Rule.FRAGMENT: "the docstring begins with a preposition: write a sentence with a subject or "
    "a verb",
    Rule.PRONOUN: "the name says nothing: use a noun of the field",
    Rule.WHAT: "'what it is' as a noun: name the thing",
    Rule.WHICH: "'of which' and its kin: write two sentences, or 'whose'",
}

PRONOUNS: Final = frozenset(
    (
        "all_of",
        *(
            "aside",
            "asked",
            "asks",
            "both",
            "found",
            "given",
            "it",
            "kept",
            "known",
            "left",
            "made",
        ),
        *("one", "ones", "others", "own", "said", "seen", "shown", "sought"),
        *("taken", "that", "there", "they", "this", "told", "unasked", "wanted", "what", "whose"),
    )
)
_FRAGMENT: Final = re.compile(
    r"(After|Also|As|At|Before|Beside|Beyond|By|For|From|In|Not|Of|On|Than|That|Through|To|Until|"
    r"Where|While|Whose|With|Within|Without)\b"
)
_WHAT: Final = re.compile(
    r"\bwhat\s+(it|they|is|was|has|a|the|no|stands|comes|lies|follows|nobody|somebody|people|only)\b",
    re.IGNORECASE,
)
_WHICH: Final = re.compile(r"\b(of|by|for|with|from|to|on|in)\s+which\b", re.IGNORECASE)
_CODE_OF_PAGE: Final = re.compile(
    r"^(?P<indent> *)```.*?^(?P=indent)```|`[^`\n]+`", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule.

    line: counted from 1.
    text: the name, or the beginning of the docstring or comment.
    """

    rule: Rule
    line: int
    text: str


def file_findings(path: str, text: str) -> tuple[Finding, ...]:
    """Returns the violations in a page (`.md`) or a Python file, whose name is one of its names."""
    if path.endswith(".md"):
        return page_findings(text)
    module = PurePosixPath(path).stem
    in_name = module.lower().strip("_") in PRONOUNS
    name_findings = (Finding(Rule.PRONOUN, 1, module),) if in_name else ()
    return (*name_findings, *findings(text))


def page_findings(page: str) -> tuple[Finding, ...]:
    """Returns the violations in a page's prose, in the order of its lines; code is left out."""
    prose = _CODE_OF_PAGE.sub(lambda code: "\n" * code[0].count("\n"), page)
    return tuple(sorted(_phrases(prose, 1), key=lambda finding: (finding.line, finding.rule)))


def findings(source: str) -> tuple[Finding, ...]:
    """Returns the violations in a Python file, in the order of its lines.

    Raises SyntaxError if `source` is not Python.
    """
    tree = ast.parse(source)
    every = (*_pronouns(tree), *_prose(tree), *_comments(source))
    return tuple(sorted(every, key=lambda finding: (finding.line, finding.rule, finding.text)))


def _pronouns(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        name = _bound_name(node)
        if name is not None and name.lower().strip("_") in PRONOUNS:
            yield Finding(Rule.PRONOUN, getattr(node, "lineno", 1), name)


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.ClassDef(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case ast.ExceptHandler(name=name) | ast.alias(asname=name):
            return name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case _:
            return None


def _prose(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                if _FRAGMENT.match(text.strip()):
                    yield Finding(Rule.FRAGMENT, node.lineno, _beginning(text))
                yield from _phrases(text, node.lineno)
            case _:
                pass


def _comments(source: str) -> Iterator[Finding]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(token.string, token.start[0])


def _phrases(text: str, first_line: int) -> Iterator[Finding]:
    for rule, pattern in ((Rule.WHAT, _WHAT), (Rule.WHICH, _WHICH)):
        for phrase in pattern.finditer(text):
            line = first_line + text.count("\n", 0, phrase.start())
            yield Finding(rule, line, " ".join(phrase[0].split()))


def _beginning(text: str) -> str:
    return text.strip().splitlines()[0][:60]
