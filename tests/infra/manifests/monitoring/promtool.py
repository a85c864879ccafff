"""Cases for `promtool test rules`: series that come in, and what the rules make of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INTERVAL = "10s"
SAMPLES = 300
"""50 minutes: longer than any alert waits."""
EVALUATED = "45m"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of series, and what one rule gives with it."""

    rule: str
    why: str
    series: Mapping[str, str]
    """Series -> start and step of its samples: `0+10`; one number stays."""
    labels: Sequence[Mapping[str, str]] = ()
    """An alert: of those that fire, without their severity."""
    values: Mapping[str, float] = field(default_factory=dict)
    """A recording rule: labels as in PromQL, `{pool="a"}` -> value."""


def samples(written: str) -> str:
    return f"{written}x{SAMPLES}"


def run(
    promtool: Path, directory: Path, groups: Sequence[Any], cases: Sequence[Case]
) -> subprocess.CompletedProcess[str]:
    """Runs all cases, each with series of its own and the rules that its rule needs."""
    rules = {
        rule.get("alert") or rule["record"]: rule for group in groups for rule in group["rules"]
    }
    files = []
    for number, name in enumerate(dict.fromkeys(case.rule for case in cases)):
        group = {"name": "rules", "rules": [rules[one] for one in _needed(name, rules)]}
        rule_file = directory / f"rules-{number}.yaml"
        rule_file.write_text(json.dumps({"groups": [group]}), encoding="utf-8")
        written = {
            "rule_files": [rule_file.name],
            "evaluation_interval": INTERVAL,
            "tests": [_test(case, rules[name]) for case in cases if case.rule == name],
        }
        files.append(directory / f"tests-{number}.yaml")
        files[-1].write_text(json.dumps(written), encoding="utf-8")
    return _promtool(promtool, directory, "test", "rules", *map(str, files))


def check(promtool: Path, directory: Path, groups: Sequence[Any]) -> str:
    """What is wrong with the rules, as Prometheus reads them; empty for nothing."""
    file = directory / "rules.yaml"
    file.write_text(json.dumps({"groups": groups}), encoding="utf-8")
    found = _promtool(promtool, directory, "check", "rules", "--lint-fatal", str(file))
    return "" if found.returncode == 0 else found.stdout + found.stderr


def _promtool(promtool: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [promtool, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


def _needed(name: str, rules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The rule after those of whose results it is computed."""
    before = [other for other in rules if other != name and other in rules[name]["expr"]]
    found = [needed for one in before for needed in _needed(one, rules)]
    return list(dict.fromkeys([*found, name]))


def _test(case: Case, rule: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": f"{case.rule}: {case.why}",
        "interval": INTERVAL,
        "input_series": [
            {"series": name, "values": samples(value)} for name, value in case.series.items()
        ],
    }
    if "record" in rule:
        expected = [
            {"labels": f"{case.rule}{labels}", "value": value}
            for labels, value in case.values.items()
        ]
        found["promql_expr_test"] = [
            {"expr": case.rule, "eval_time": EVALUATED, "exp_samples": expected}
        ]
        return found
    fires = [
        {
            "exp_labels": {**labels, **rule["labels"]},
            "exp_annotations": {
                name: _filled(text, labels) for name, text in rule["annotations"].items()
            },
        }
        for labels in case.labels
    ]
    found["alert_rule_test"] = [
        {"eval_time": EVALUATED, "alertname": case.rule, "exp_alerts": fires}
    ]
    return found


def _filled(text: str, labels: Mapping[str, str]) -> str:
    """Every label that a text names must be there: an empty one would tell nobody anything."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
