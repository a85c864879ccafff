"""Whatever `init` accepts, `check` accepts; and each answer is checked at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, plan, stack_file
from slicewright.init import files, questions, suggestions
from slicewright.init.answers import (
    CLOUDS,
    Answers,
    Cloud,
    WrongAnswer,
    project_name,
    read_environments,
    read_layout,
)
from slicewright.options import stack_files
from tests.properties import examples

OPTIONS = {question.option: question for question in questions.QUESTIONS}


def answered(answers: Answers, **texts: str) -> Answers:
    for option, text in texts.items():
        answers = questions.give(OPTIONS[option.replace("_", "-")], answers, text)
    return answers


def gke(**texts: str) -> Answers:
    return answered(Answers(project="fleet", cloud="gke"), google_project="my-project", **texts)


def eks(**texts: str) -> Answers:
    return answered(Answers(project="fleet", cloud="eks"), **texts)


def existing(**texts: str) -> Answers:
    return answered(Answers(project="fleet", cloud="existing"), contexts="main", **texts)


def fleet_of(answers: Answers, environment: str = "dev") -> dict[str, Any]:
    config = yaml.safe_load(files.stack_text(answers, environment))["config"]
    return dict(config[stack_file.KEY])


def names(entries: Mapping[str, object]) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(entries))


@st.composite
def layouts(draw: st.DrawFn, answers: Answers) -> str:
    """Partitions that the GPU may have, and others."""
    gpu = suggestions.gpu_of(answers)
    if gpu is None or not gpu.profiles:
        return draw(st.sampled_from(["none", "1g.10gb"]))
    profile = names(gpu.profiles)
    counts = st.dictionaries(profile, st.integers(1, 3), min_size=1, max_size=2)
    listed = counts.map(lambda c: ",".join(f"{name}={count}" for name, count in c.items()))
    return draw(st.one_of(st.just("none"), profile, listed))


ENVIRONMENTS = st.lists(
    st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True), min_size=1, max_size=2, unique=True
)


@st.composite
def texts(draw: st.DrawFn, option: str, answers: Answers) -> str:
    """An answer that may be refused."""
    match option:
        case "environments":
            return ",".join(draw(ENVIRONMENTS))
        case "google-project":
            return draw(st.from_regex(r"[a-z][a-z0-9-]{4,20}[a-z0-9]", fullmatch=True))
        case "contexts":
            words = st.text(st.characters(blacklist_characters=","), max_size=8)
            return ",".join(f"{draw(words)}{name}" for name in answers.environments)
        case "region":
            recorded = catalog.gcp().zones if answers.cloud == "gke" else catalog.aws().regions
            return draw(names(recorded))
        case "machine-type":
            offered = [machine.name for machine in suggestions.machines(answers)]
            every = [name for cloud, name in catalog.load().machines if cloud == answers.cloud]
            return draw(st.sampled_from(offered) | st.sampled_from(every))
        case "gpu":
            return draw(names(catalog.load().gpus))
        case "layout":
            return draw(layouts(answers))
        case _:
            return str(draw(st.integers(0, 20)))


@st.composite
def accepted_answers(draw: st.DrawFn) -> Answers:
    """A session whose user takes the default after a refusal."""
    answers = Answers(
        project=project_name(draw(st.text(max_size=30))), cloud=draw(st.sampled_from(CLOUDS))
    )
    for question in questions.applicable(answers):
        try:
            answers = questions.give(question, answers, draw(texts(question.option, answers)))
        except WrongAnswer:
            default = question.suggest(answers) or ",".join(answers.environments)
            answers = questions.give(question, answers, default)
    return answers


@settings(max_examples=examples(100))
@given(accepted_answers())
def test_check_accepts_every_stack_file_of_accepted_answers(answers: Answers) -> None:
    with TemporaryDirectory() as directory:
        for environment in answers.environments:
            file = Path(directory) / f"Pulumi.{environment}.yaml"
            file.write_text(files.stack_text(answers, environment), encoding="utf-8")
            source = stack_files.read_source(file)
            fleet = plan.deployable(plan.read_source(source), source)
            (pool,) = fleet.pools
            assert pool.nodes.max == answers.nodes
            assert bool(pool.offer.layouts[0]) is (answers.layout is not None)
            assert source.setting("gcp:project") == (answers.google_project or None)


@pytest.mark.parametrize(
    ("answers", "partition"),
    [
        (
            gke(machine_type="a3-highgpu-8g", layout="3g.40gb"),
            {"mode": "native", "profile": "3g.40gb"},
        ),
        (
            eks(machine_type="p4d.24xlarge", layout="1g.5gb"),
            {"mode": "operator", "layout": {"1g.5gb": 7}},
        ),
        (
            existing(gpu="A100-40", layout="1g.5gb=2, 2g.10gb=1,3g.20gb=1"),
            {"mode": "operator", "layout": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}},
        ),
        (existing(gpu="L4", layout="none"), None),
    ],
)
def test_a_layout_is_written_as_its_cloud_partitions(
    answers: Answers, partition: dict[str, Any] | None
) -> None:
    assert fleet_of(answers)["node_pools"][0].get("partition") == partition


def test_zones_are_written_by_the_cloud_s_rules() -> None:
    assert fleet_of(gke(region="us-central1", machine_type="a3-highgpu-8g"))["node_pools"][0][
        "zones"
    ] == ["us-central1-a"]
    # The only zone with the machine type comes first: the GPU pool is there.
    cluster = fleet_of(eks(region="eu-west-1", machine_type="p4d.24xlarge"))["cluster"]
    assert cluster["zones"] == ["euw1-az2", "euw1-az1"]


def test_each_environment_has_a_cluster_of_its_own() -> None:
    answers = answered(
        Answers(project="ai", cloud="existing"), environments="dev,prod", contexts="a,b"
    )
    clusters = [fleet_of(answers, name)["cluster"] for name in answers.environments]
    assert clusters == [{"name": "ai-dev", "context": "a"}, {"name": "ai-prod", "context": "b"}]


@pytest.mark.parametrize(
    "context", ["yes", "1.30", "arn:aws:eks:eu-west-1:1:cluster/a", "a: b", "a #b", "'a", "{{a}}"]
)
def test_a_context_keeps_its_characters(context: str) -> None:
    answers = answered(Answers(project="ai", cloud="existing"), contexts=context)
    (fleet,) = files.check(answers)
    assert isinstance(fleet, plan.ExistingFleetPlan)
    assert fleet.cluster is not None
    assert fleet.cluster.context == context


@pytest.mark.parametrize(
    ("answers", "option", "text", "reason"),
    [
        (gke(), "region", "us-centrl1", "did you mean us-central1?"),
        (gke(), "region", "us-central1-c", "is a zone: answer its region, us-central1"),
        (gke(), "region", "us-central1\nx: y", "characters that cannot be printed"),
        (gke(), "google-project", "My Project", "is not the ID of a Google Cloud project"),
        (gke(region="us-central1"), "machine-type", "a3-highgpu-9g", "did you mean a3-highgpu-8g?"),
        (
            gke(region="us-central1"),
            "machine-type",
            "n2-standard-4",
            "has no GPU",
        ),
        (gke(machine_type="a3-highgpu-8g"), "layout", "1g.10gb=2", "GKE partitions each GPU"),
        (eks(machine_type="p4d.24xlarge"), "layout", "3g.20gb=2,1g.5gb=1", "does not fit"),
        (eks(machine_type="p4d.24xlarge"), "layout", "9g.5gb", "has no profile 9g.5gb"),
        (existing(), "gpu", "H10", "gpu.model"),
        (existing(gpu="L4"), "layout", "1g.5gb", "MIG"),
        (existing(gpu="L4"), "nodes", "many", "is not a whole number"),
        (existing(), "contexts", "a,b", "name one context for each environment (dev)"),
        (existing(), "gpu", "", "an answer is required"),
    ],
)
def test_a_wrong_answer_is_refused_at_once(
    answers: Answers, option: str, text: str, reason: str
) -> None:
    with pytest.raises(WrongAnswer) as refused:
        questions.give(OPTIONS[option], answers, text)
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", ["", "dev,", "dev,dev", "Dev", "1dev", "a" * 21, "../dev", "a_b"])
def test_an_environment_is_a_part_of_a_file_and_cluster_name(text: str) -> None:
    with pytest.raises(WrongAnswer):
        read_environments(text)


def test_too_many_environments_are_refused() -> None:
    with pytest.raises(WrongAnswer, match="at most 20"):
        read_environments(",".join(f"e{n}" for n in range(21)))


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("none", None),
        ("3g.40gb", "3g.40gb"),
        ("1g.5gb=7", {"1g.5gb": 7}),
        ("1g.5gb+me=1, 2g.10gb = 2", {"1g.5gb+me": 1, "2g.10gb": 2}),
    ],
)
def test_a_layout_has_three_forms(text: str, layout: object) -> None:
    assert read_layout(text) == layout


@pytest.mark.parametrize(
    "text", ["1g.5gb,2g.10gb", "1g.5gb=x", "=1", "1g.5gb=1,1g.5gb=2", ",", "1g.5gb="]
)
def test_another_form_of_layout_is_refused(text: str) -> None:
    with pytest.raises(WrongAnswer):
        read_layout(text)


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("GPU Fleet", "gpu-fleet"),
        ("fleet", "fleet"),
        ("2026_ml.fleet", "ml-fleet"),
        ("x" * 50, "x" * 19),
        ("abcdefghijklmnopqr-stu", "abcdefghijklmnopqr"),
        ("..", "fleet"),
        ("日本", "fleet"),
    ],
)
def test_project_is_named_like_its_directory(directory: str, name: str) -> None:
    assert project_name(directory) == name


REGIONS = [
    *(("gke", region) for region in catalog.gcp().zones),
    *(("eks", region) for region in catalog.aws().regions),
]


def has_machines(cloud: Cloud, region: str) -> bool:
    return bool(suggestions.machines(Answers(project="fleet", cloud=cloud, region=region)))


@pytest.mark.parametrize(("cloud", "region"), [r for r in REGIONS if has_machines(*r)])
def test_a_region_with_machines_suggests_one_that_is_accepted(cloud: Cloud, region: str) -> None:
    answers = answered(Answers(project="fleet", cloud=cloud), region=region)
    text = OPTIONS["machine-type"].suggest(answers)
    assert answered(answers, machine_type=text, layout="none").machine_type == text


@pytest.mark.parametrize(("cloud", "region"), [r for r in REGIONS if not has_machines(*r)])
def test_a_region_without_machines_is_refused(cloud: Cloud, region: str) -> None:
    with pytest.raises(WrongAnswer, match="no machine type with GPUs is known in"):
        answered(Answers(project="fleet", cloud=cloud), region=region)


def test_every_machine_type_that_is_suggested_is_accepted() -> None:
    """With its boot disk: some boot from Hyperdisk only."""
    suggested = set()
    for cloud, region in REGIONS:
        for machine in suggestions.machines(Answers(project="f", cloud=cloud, region=region)):
            if machine.name not in suggested:
                suggested.add(machine.name)
                answered(
                    Answers(project="f", cloud=cloud, region=region), machine_type=machine.name
                )
    assert {"a2-highgpu-1g", "a3-ultragpu-8g", "p4d.24xlarge", "g6.xlarge"} <= suggested


def test_schema_beside_the_stack_files_is_the_one_that_their_first_line_names() -> None:
    content = files.project_files(gke())
    stack = files.stack_name("dev")
    first = content[stack].splitlines()[0]
    schema = Path(stack).parent / first.rpartition("=")[2]
    assert str(schema) == "stacks/../stack-file.schema.json"
    assert json.loads(content["stack-file.schema.json"])["title"] == "slicewright stack file"
