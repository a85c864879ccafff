"""How NVIDIA's device plugin reads a config file: its own parser, in a small Go program.

The parser ignores unknown keys; ours must have none. A strict decoder of the same types finds them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.toolchain
Judge = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@pytest.fixture
def judge(cross_check: Callable[..., Any], tmp_path: Path) -> Judge:
    """Error: of its parser; Unknown: of the strict decoder; Config: as the plugin reads it."""

    def ask(config: Mapping[str, Any]) -> Mapping[str, Any]:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        answer: Mapping[str, Any] = json.loads(cross_check("pluginconfig", file))[str(file)]
        return answer

    return ask


def time_slicing(**resource: object) -> dict[str, Any]:
    sharing = {
        "timeSlicing": {
            "renameByDefault": False,
            "failRequestsGreaterThanOne": True,
            "resources": [resource],
        }
    }
    return {"version": "v1", "flags": {"migStrategy": "mixed"}, "sharing": sharing}


def test_right_configs_are_understood_as_written(judge: Judge) -> None:
    answer = judge(time_slicing(name="nvidia.com/gpu", replicas=14))
    assert (answer["Error"], answer["Unknown"]) == ("", "")
    shared = answer["Config"]["sharing"]["timeSlicing"]
    assert shared["failRequestsGreaterThanOne"] is True
    assert [(r["name"], r["replicas"]) for r in shared["resources"]] == [("nvidia.com/gpu", 14)]
    assert answer["Config"]["flags"]["migStrategy"] == "mixed"


def test_mps_always_fails_requests_for_more_than_one(judge: Judge) -> None:
    answer = judge(
        {
            "version": "v1",
            "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
        }
    )
    assert (answer["Error"], answer["Unknown"]) == ("", "")
    assert answer["Config"]["sharing"]["mps"]["failRequestsGreaterThanOne"] is True


def test_a_shared_mig_profile_is_understood(judge: Judge) -> None:
    answer = judge(time_slicing(name="nvidia.com/mig-1g.10gb", replicas=2))
    assert (answer["Error"], answer["Unknown"]) == ("", "")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"version": "v2"}, "unknown version: v2"),
        (time_slicing(name="nvidia.com/gpu"), "replicas"),
        (time_slicing(name="nvidia.com/gpu", replicas=0), "replicas"),
        (time_slicing(name="nvidia.com/gpu", replicas="two"), "cannot unmarshal string"),
        (time_slicing(replicas=2), "name"),
    ],
    ids=str,
)
def test_wrong_configs_are_refused_by_its_parser(
    judge: Judge, config: Mapping[str, Any], says: str
) -> None:
    assert says in judge(config)["Error"]


@pytest.mark.parametrize(
    "config",
    [
        {"version": "v1", "flags": {"migStrategie": "mixed"}},
        {"version": "v1", "sharring": {"timeSlicing": {"resources": []}}},
        {"version": "v1", "replicas": 4},
    ],
    ids=str,
)
def test_its_parser_ignores_misspelt_keys_and_the_strict_decoder_reports_them(
    judge: Judge, config: Mapping[str, Any]
) -> None:
    answer = judge(config)
    assert answer["Error"] == ""
    assert "unknown field" in answer["Unknown"]


def test_capitals_do_not_matter_to_its_parser(judge: Judge) -> None:
    """Go's JSON decoder ignores the case of keys."""
    config = {
        "version": "v1",
        "sharing": {"timeslicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}},
    }
    assert judge(config)["Config"]["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 2


def test_inside_a_shared_resource_even_the_strict_decoder_ignores_misspelt_keys(
    judge: Judge,
) -> None:
    """These types have their own decoder: what we render there must be right by construction."""
    answer = judge(time_slicing(name="nvidia.com/gpu", replicas=2, weight=3))
    assert (answer["Error"], answer["Unknown"]) == ("", "")
