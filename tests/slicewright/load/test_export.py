"""Scripts for tools that slicewright does not run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slicewright.cli import BAD_INPUT, VERIFIED, main
from slicewright.load import export
from slicewright.load.load import Target
from tests.slicewright.load.test_results import load

STACK = str(Path(__file__).parents[2] / "infra/golden/autoscaling.yaml")


def k6_settings(text: str) -> dict[str, Any]:
    (line,) = re.findall(r"^const load = (\{.*\});$", text, re.MULTILINE)
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("api", ["chat", "infer"])
def test_a_k6_script_needs_no_other_file(api: str) -> None:
    text = export.script("k6", load(api=api))
    settings = k6_settings(text)
    assert settings["targets"] == [
        {"tag": "t0", "url": "http://10.0.0.1:8000"},
        {"tag": "t1", "url": "http://b:8000"},
    ]
    assert "SLICEWRIGHT_LOAD" not in text
    assert "SLICEWRIGHT_SUMMARY" not in text
    # Every function that the options name is there.
    functions = {scenario["exec"] for scenario in settings["options"]["scenarios"].values()}
    assert functions == {"load_"}
    assert "export function load_(" in text
    assert "first_token" not in text


def test_a_k6_script_has_users_or_a_rate() -> None:
    users = export.k6_options(load())["scenarios"]["load"]
    assert (users["executor"], users["vus"], users["duration"]) == ("constant-vus", 4, "30s")
    rate = export.k6_options(load(users=None, rate=20))["scenarios"]["load"]
    assert (rate["executor"], rate["rate"], rate["maxVUs"]) == ("constant-arrival-rate", 20, 200)


def test_behind_one_address_k6_has_fresh_connections() -> None:
    one = load(targets=(Target(name="s", url="http://s:8000"),))
    assert export.k6_options(one)["noVUConnectionReuse"] is True
    assert export.k6_options(load())["noVUConnectionReuse"] is False


@pytest.mark.parametrize("tool", export.TOOLS)
def test_no_script_has_the_key_but_the_variable_of_it(tool: str) -> None:
    text = export.script(tool, load(key="sk-secret"))
    assert "sk-secret" not in text
    assert "SLICEWRIGHT_API_KEY" in text


def test_aiperf_gets_the_same_load() -> None:
    text = export.script("aiperf", load(model="org/a b", users=None, rate=20))
    assert text.startswith("aiperf profile --model 'org/a b' --endpoint-type chat --streaming")
    assert "--url http://10.0.0.1:8000 --url http://b:8000" in text
    assert "--request-rate 20 --arrival-pattern constant" in text
    assert "--concurrency 4" in export.script("aiperf", load())


def test_the_command_prints_a_script_and_sends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["load", "-s", STACK, "llm", "--url", "http://127.0.0.1:1", "--export"]
    assert main([*arguments, "k6"]) == VERIFIED
    out, error = capsys.readouterr()
    assert k6_settings(out)["model"] == "org/small"
    assert error == ""


def test_aiperf_is_refused_for_triton(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["load", "-s", STACK, "tritonserver", "--url", "http://127.0.0.1:1"]
    assert main([*arguments, "--model", "m", "--export", "aiperf"]) == BAD_INPUT
    assert "--export aiperf: only chats of vLLM" in capsys.readouterr().err
