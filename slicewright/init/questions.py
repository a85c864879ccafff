"""The questions about a first fleet. Each answer is checked together with the earlier ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.stack_file.schema.gke.capacity import PROJECT
from slicewright.init import files, suggestions
from slicewright.init.answers import (
    CLOUDS,
    NO_PARTITIONS,
    Answers,
    Cloud,
    WrongAnswer,
    read_cloud,
    read_environments,
    read_layout,
    read_list,
    read_number,
)

_NAMES_IN_PROMPT: Final = 8
"""Names in a prompt. Nobody reads more."""


@dataclass(frozen=True, kw_only=True)
class Question:
    option: str
    """The command's option with the answer, without hyphens before it."""
    help: str
    clouds: tuple[Cloud, ...] = CLOUDS
    """The clouds whose fleets need the answer."""
    prompt: Callable[[Answers], str]
    suggest: Callable[[Answers], str] = lambda answers: ""
    """The answer for an empty line. Empty: an answer is required."""
    answer: Callable[[Answers, str], Answers]
    """The answers with this one, which is not empty. Raises WrongAnswer."""


def give(question: Question, answers: Answers, text: str) -> Answers:
    """The answers with this one. Raises WrongAnswer."""
    if not text:
        raise WrongAnswer("an answer is required")
    if not text.isprintable():
        raise WrongAnswer(f"{stack_file.plain(text)} has characters that cannot be printed")
    return question.answer(answers, text)


def applicable(answers: Answers) -> Iterator[Question]:
    """The questions after the one about the cloud."""
    return (question for question in QUESTIONS if answers.cloud in question.clouds)


def _checked(answers: Answers) -> Answers:
    try:
        files.check(answers)
    except stack_file.SpecError as e:
        raise WrongAnswer("\n".join(_reasons(e))) from None
    return answers


def _reasons(error: stack_file.SpecError) -> Iterator[str]:
    """The problems of the cluster if it has any: they cause others."""
    if not error.problems:
        yield str(error)
    of_cluster = [problem for problem in error.problems if problem.path[:1] == ("cluster",)]
    for problem in of_cluster or error.problems:
        place = stack_file.format_path(problem.path)
        yield stack_file.plain(f"{place}: {problem.reason}; {problem.instead}")


def _answer_environments(answers: Answers, text: str) -> Answers:
    return _checked(dataclasses.replace(answers, environments=read_environments(text)))


def _answer_google_project(answers: Answers, text: str) -> Answers:
    if re.fullmatch(PROJECT, text) is None:
        raise WrongAnswer(
            f"{stack_file.plain(text)!r} is not the ID of a Google Cloud project: use 6 to 30 "
            "lowercase letters, digits and hyphens, with a letter first"
        )
    return dataclasses.replace(answers, google_project=text)


def _answer_contexts(answers: Answers, text: str) -> Answers:
    contexts = read_list(text)
    if len(contexts) != len(answers.environments):
        raise WrongAnswer(
            f"name one context for each environment ({', '.join(answers.environments)}), in this "
            "order; two fleets in one cluster would manage the same objects"
        )
    return _checked(dataclasses.replace(answers, contexts=contexts))


def _answer_region(answers: Answers, text: str) -> Answers:
    answers = dataclasses.replace(answers, region=text)
    if answers.cloud == "gke" and (region := suggestions.region_of_zone(text)) is not None:
        raise WrongAnswer(f"{text} is a zone: answer its region, {region}")
    if suggestions.is_recorded(answers) and not suggestions.machines(answers):
        raise WrongAnswer(f"no machine type with GPUs is known in {text}: answer another region")
    return _checked(answers)


def _answer_machine_type(answers: Answers, text: str) -> Answers:
    return _checked(dataclasses.replace(answers, machine_type=text))


def _answer_gpu(answers: Answers, text: str) -> Answers:
    return _checked(dataclasses.replace(answers, gpu=text))


def _answer_gpus_per_node(answers: Answers, text: str) -> Answers:
    return _checked(dataclasses.replace(answers, gpus_per_node=read_number(text)))


def _answer_layout(answers: Answers, text: str) -> Answers:
    layout = read_layout(text)
    if answers.cloud == "gke" and not isinstance(layout, str | None):
        raise WrongAnswer(
            "GKE partitions each GPU into instances of one profile: answer one profile, such as "
            f"{next(iter(layout))}"
        )
    return _checked(dataclasses.replace(answers, layout=layout))


def _answer_nodes(answers: Answers, text: str) -> Answers:
    return _checked(dataclasses.replace(answers, nodes=read_number(text)))


def _ask_machine_type(answers: Answers) -> str:
    names = [
        f"{machine.name} ({machine.gpu_count} x {machine.gpu.name})"
        for machine in suggestions.machines(answers)[:_NAMES_IN_PROMPT]
        if machine.gpu is not None
    ]
    return f"Machine type, for example {', '.join(names)}" if names else "Machine type"


def _ask_layout(answers: Answers) -> str:
    gpu = suggestions.gpu_of(answers)
    if gpu is None or gpu.family is None:
        return f"Partitions of each GPU: {NO_PARTITIONS}, because it has no MIG"
    profiles = [name for name in gpu.profiles if "+" not in name][:_NAMES_IN_PROMPT]
    counts = "" if answers.cloud == "gke" else f", or counts such as {profiles[0]}=2"
    return (
        f"Partitions of each GPU: {NO_PARTITIONS}, one of {', '.join(profiles)} for as many as fit"
        f"{counts}"
    )


def _ask_contexts(answers: Answers) -> str:
    return (
        "Context of the kubeconfig for "
        f"{', '.join(answers.environments)}{' (in this order)' if answers.environments[1:] else ''}"
    )


CLOUD: Final = Question(
    option="cloud",
    help="gke or eks, whose clusters the fleet creates, or existing",
    prompt=lambda answers: "Cloud: gke, eks, or existing for a cluster that exists",
    answer=lambda answers, text: dataclasses.replace(answers, cloud=read_cloud(text)),
)
QUESTIONS: Final = (
    Question(
        option="environments",
        help="the names of the environments, separated by commas: each is a stack (default: dev)",
        prompt=lambda answers: "Environments, separated by commas",
        suggest=lambda answers: "dev",
        answer=_answer_environments,
    ),
    Question(
        option="google-project",
        help="gke: the ID of the Google Cloud project",
        clouds=("gke",),
        prompt=lambda answers: "ID of the Google Cloud project",
        answer=_answer_google_project,
    ),
    Question(
        option="contexts",
        help="existing: a context of the kubeconfig for each environment, separated by commas",
        clouds=("existing",),
        prompt=_ask_contexts,
        answer=_answer_contexts,
    ),
    Question(
        option="region",
        help="gke, eks: the region (default: us-central1, us-east-1)",
        clouds=("gke", "eks"),
        prompt=lambda answers: "Region",
        suggest=suggestions.region,
        answer=_answer_region,
    ),
    Question(
        option="machine-type",
        help="gke, eks: the machine type of the GPU nodes (default: one that the region offers)",
        clouds=("gke", "eks"),
        prompt=_ask_machine_type,
        suggest=lambda answers: suggestions.complete(answers).machine_type,
        answer=_answer_machine_type,
    ),
    Question(
        option="gpu",
        help="existing: the GPU model of the nodes (default: H100-80)",
        clouds=("existing",),
        prompt=lambda answers: "GPU model of the nodes, such as A100-40, H100-80 or L4",
        suggest=lambda answers: suggestions.gpu(),
        answer=_answer_gpu,
    ),
    Question(
        option="gpus-per-node",
        help="existing: the number of GPUs of each node (default: 8)",
        clouds=("existing",),
        prompt=lambda answers: "GPUs of each node",
        suggest=lambda answers: "8",
        answer=_answer_gpus_per_node,
    ),
    Question(
        option="layout",
        help="the partitions of each GPU: none, one MIG profile for as many as fit (3g.40gb), or "
        "counts (1g.10gb=2,3g.40gb=1; not on GKE) (default: none)",
        prompt=_ask_layout,
        suggest=lambda answers: NO_PARTITIONS,
        answer=_answer_layout,
    ),
    Question(
        option="nodes",
        help="the number of GPU nodes of each environment (default: 1)",
        prompt=lambda answers: "GPU nodes of each environment",
        suggest=lambda answers: "1",
        answer=_answer_nodes,
    ),
)
