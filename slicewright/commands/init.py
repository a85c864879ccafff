"""`slicewright init`: asks about a first fleet, and writes a project directory."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED
from slicewright.infra import stack_file
from slicewright.init import files, questions, writing
from slicewright.init.answers import Answers, WrongAnswer, project_name, read_project
from slicewright.init.questions import CLOUD, QUESTIONS, Question

_Ask = Callable[[Question, Answers], Answers]


class _Refused(Exception):
    """Nothing is written. The message says why."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "init",
        description="Asks about a first fleet, checks and draws each answer, and writes a Pulumi "
        "project: Pulumi.yaml, its program, a stack file for each environment, .gitignore, "
        "requirements.txt and the schema of stack files. An option answers its question. No file "
        "is overwritten (docs/reference/init.md).",
    )
    parser.add_argument(
        "directory",
        nargs="?",
        default=".",
        metavar="DIRECTORY",
        help="where to write; it is created if it is missing (default: the current directory)",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="ask nothing: questions without an option get their default",
    )
    parser.add_argument(
        "--name",
        help="the project's name, which cluster names begin with (default: from DIRECTORY's name)",
    )
    for question in (CLOUD, *QUESTIONS):
        parser.add_argument(f"--{question.option}", help=question.help)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    directory = Path(parsed.directory)
    try:
        if not parsed.yes and not sys.stdin.isatty():
            raise _Refused(
                "there is no terminal to ask on; pass --yes, with an option for each answer that "
                "is not the default (`slicewright init --help`)"
            )
        # Before the first question: answers would be lost.
        writing.require_absent(directory, files.FIXED_NAMES)
        answers = _collect(parsed, console)
        content = files.project_files(answers)
        writing.write(directory, content)
    except writing.Exists as e:
        return _refuse(f"no file is overwritten, and these exist: {stack_file.plain(str(e))}")
    except _Refused as e:
        return _refuse(str(e))
    except OSError as e:
        name = stack_file.plain(os.fspath(e.filename or directory))
        print(f"slicewright init: {name[:200]}: {e.strerror}", file=sys.stderr)
        return CANNOT_RUN
    _show_next_steps(directory, content, answers, console)
    return VERIFIED


def _collect(parsed: argparse.Namespace, console: Console) -> Answers:
    """Raises _Refused."""
    options = {
        question.option: text
        for question in (CLOUD, *QUESTIONS)
        if (text := getattr(parsed, question.option.replace("-", "_"))) is not None
    }
    ask = _take_default if parsed.yes else _ask
    try:
        name = read_project(parsed.name) if parsed.name is not None else None
    except WrongAnswer as e:
        raise _Refused(f"--name: {e}") from None
    answers = Answers(project=name or project_name(Path(parsed.directory).absolute().name))
    answers = _answer(CLOUD, answers, options, ask)
    remaining = tuple(questions.applicable(answers))
    unused = options.keys() - {CLOUD.option} - {question.option for question in remaining}
    if unused:
        words = ", ".join(f"--{option}" for option in sorted(unused))
        raise _Refused(f"{words}: no such question for the cloud {answers.cloud}; omit it")
    for question in remaining:
        answers = _answer(question, answers, options, ask)
        if question.option == "layout":
            _draw(answers, console)
    return answers


def _answer(question: Question, answers: Answers, options: Mapping[str, str], ask: _Ask) -> Answers:
    text = options.get(question.option)
    if text is None:
        return ask(question, answers)
    try:
        return questions.give(question, answers, text)
    except WrongAnswer as e:
        raise _Refused(f"--{question.option}: {e}") from None


def _take_default(question: Question, answers: Answers) -> Answers:
    text = question.suggest(answers)
    if not text:
        raise _Refused(f"--{question.option} is required with --yes: {question.help}")
    try:
        return questions.give(question, answers, text)
    except WrongAnswer as e:
        option = f"--{question.option}"
        raise _Refused(f"{option} is required, because {text} is refused: {e}") from None


def _ask(question: Question, answers: Answers) -> Answers:
    """Asks until the answer is accepted. Raises _Refused at the end of the input."""
    suggested = question.suggest(answers)
    while True:
        default = f" [{suggested}]" if suggested else ""
        print(f"{question.prompt(answers)}{default}: ", end="", flush=True, file=sys.stderr)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError:
            print("  the answer is not valid UTF-8", file=sys.stderr)
            continue
        if not line:
            print(file=sys.stderr)
            raise _Refused("the input ended before the last answer; nothing was written")
        try:
            return questions.give(question, answers, line.strip() or suggested)
        except WrongAnswer as e:
            print("\n".join(f"  {reason}" for reason in str(e).splitlines()), file=sys.stderr)


def _draw(answers: Answers, console: Console) -> None:
    from slicewright.show import plan_text

    for pool in files.check(answers)[0].pools:
        plan_text.show_layouts(pool, console)


def _show_next_steps(
    directory: Path, content: Mapping[str, str], answers: Answers, console: Console
) -> None:
    from slicewright.show import plan_text

    stack = answers.environments[0]
    plan_text.show_written([directory / name for name in content], console)
    lines = [
        "next:",
        *([] if directory == Path() else [f"  cd {shlex.quote(str(directory))}"]),
        "  python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
        f"  slicewright plan -s {stack}",
        f"  pulumi stack init {stack} && pulumi up -s {stack}",
    ]
    print(*lines, sep="\n")


def _refuse(why: str) -> int:
    print(f"slicewright init: {why}", file=sys.stderr)
    return BAD_INPUT
