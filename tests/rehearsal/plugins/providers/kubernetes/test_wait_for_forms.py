"""The annotation `pulumi.com/waitFor`: forms, texts, and generations."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes.json_paths import BadPath, parse
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import RelatedObjects
from slicewright.rehearsal.plugins.providers.kubernetes.wait_for_annotation import (
    InvalidWaitFor,
    parse_annotation,
)
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import Verdict

_NOTHING = cast(RelatedObjects, None)


def _live(status: Any, generation: int = 2) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "generation": generation},
        **({} if status is None else {"status": status}),
    }


def _judge(form: str, status: Any) -> Verdict:
    return parse_annotation(form).judge(_live(status), _NOTHING)


def _verified(status: str, **more: Any) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": "Other", "status": "True"},
            {"type": "Verified", "status": status, **more},
        ]
    }


def test_without_conditions_it_waits_with_a_warning() -> None:
    assert _judge("condition=Verified", None) == Verdict(
        False, "Has no .status.conditions", Severity.WARNING
    )


def test_other_conditions_only_wait_without_a_status() -> None:
    assert _judge(
        "condition=Verified", {"conditions": [{"type": "Other", "status": "True"}]}
    ) == Verdict(False)


def test_a_false_condition_waits_and_is_shown_without_its_reason() -> None:
    verdict = _judge("condition=Verified", _verified("False", reason="Mismatch", message="n1"))
    assert verdict == Verdict(False, "Resource has condition Verified=False (want True)")


@pytest.mark.parametrize(
    "status",
    [_verified("True", observedGeneration=1), {**_verified("True"), "observedGeneration": 1}],
)
def test_a_true_condition_of_an_older_generation_waits(status: dict[str, Any]) -> None:
    assert _judge("condition=Verified", status) == Verdict(
        False, "Generation 1 is less than expected 2"
    )


@pytest.mark.parametrize(
    "status", [_verified("True", observedGeneration=2), _verified("True"), _verified("true")]
)
def test_a_true_condition_of_this_generation_or_of_none_is_ready(status: dict[str, Any]) -> None:
    assert _judge("condition=Verified", status).done


def test_the_condition_type_is_compared_without_case() -> None:
    assert _judge("condition=verified", _verified("True")).done


def test_another_status_may_be_wanted() -> None:
    assert _judge("condition=Verified=False", _verified("False")).done
    assert not _judge("condition=Verified=False", _verified("True")).done


@pytest.mark.parametrize(
    ("form", "done"),
    [
        ("jsonpath={.status.ready}", True),
        ("jsonpath={.status.missing}", False),
        ("jsonpath={.status.ready}=7", True),
        ("jsonpath={.status.ready}=8", False),
        ("jsonpath={.status.ready}!=8", True),
        ("jsonpath={.status.ready}>=7", True),
        ("jsonpath={.status.ready}<=6", False),
        ("jsonpath={.status['ready']}=7", True),
        ("jsonpath={.status.flag}=true", True),
        ("jsonpath={.status.list[1]}=b", True),
        ("jsonpath={.status.list[-1]}=c", True),
        ('jsonpath={.status.conditions[?(@.type=="Verified")].status}=True', True),
        ("jsonpath={.status.conditions[?@.type=='Other'].status}=True", False),
    ],
)
def test_json_paths(form: str, done: bool) -> None:
    status = {
        "ready": 7,
        "flag": True,
        "list": ["a", "b", "c"],
        "conditions": [{"type": "Verified", "status": "True"}],
    }
    assert _judge(form, status).done is done


def test_a_json_path_shows_what_it_found() -> None:
    assert (
        _judge("jsonpath={.status.ready}=8", {"ready": 7}).status
        == 'Waiting for {.status.ready}=8 (found "7")'
    )
    assert _judge("jsonpath={.status.ready}=8", {}).status == "Waiting for {.status.ready}=8"


def test_a_list_needs_all() -> None:
    form = '["condition=Verified", "jsonpath={.status.ready}=2"]'
    assert not _judge(form, {**_verified("True"), "ready": 1}).done
    assert _judge(form, {**_verified("True"), "ready": 2}).done


@pytest.mark.parametrize(
    "form", ["Ready", "condition=", "jsonpath=.status.x", "jsonpath={.status[}", "[", "[]", "[1]"]
)
def test_an_invalid_annotation_is_refused(form: str) -> None:
    with pytest.raises(InvalidWaitFor, match="waitFor"):
        parse_annotation(form)


def test_an_unsupported_path_names_the_part() -> None:
    with pytest.raises(BadPath, match="unexpected"):
        parse(".a..b")
