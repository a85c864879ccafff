"""Exports the same load to other tools, for people who have them. slicewright runs none of these.

k6 is under the AGPL. AIPerf (Apache-2.0) is NVIDIA's benchmark for model servers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slicewright.load.load import Load

TOOLS: Final = ("k6", "aiperf")
_SCRIPTS: Final = Path(__file__).parent / "scripts"
_SETTINGS_LINE: Final = "const load = JSON.parse(open(__ENV.SLICEWRIGHT_LOAD));"
"""The line of our scripts that the load's settings replace."""
_K6_USERS_PER_RATE: Final = 10
_K6_GRACE: Final = "60s"


class NotSupported(Exception):
    """The tool cannot create this load. The message says why."""


def script(tool: str, load: Load) -> str:
    """Returns the text for stdout. It never contains the API key. Raises NotSupported."""
    return _k6(load) if tool == "k6" else _aiperf(load)


def _k6(load: Load) -> str:
    """Returns a complete script for `k6 run FILE`, with the API key in SLICEWRIGHT_API_KEY."""
    settings = {
        "options": k6_options(load),
        "targets": [
            {"tag": f"t{index}", "url": target.url} for index, target in enumerate(load.targets)
        ],
        "model": load.model,
        "tokens": load.tokens,
        "body": load.body,
    }
    text = (_SCRIPTS / f"{load.api}.js").read_text(encoding="utf-8")
    head, line, rest = text.partition(_SETTINGS_LINE)
    assert line, "the script reads its settings in one line"
    return f"{head}const load = {json.dumps(settings)};{rest}".rstrip("\n")


def k6_options(load: Load) -> dict[str, Any]:
    """Source: k6 documentation, options, executors and thresholds."""
    return {
        "scenarios": {"load": _k6_scenario(load)},
        "noVUConnectionReuse": load.fresh_connections,
        # A threshold without a condition makes k6 show the figures of one tag separately.
        "thresholds": {
            f"{metric}{{target:t{index}}}": []
            for metric in ("latency", "answered", "failed")
            for index in range(len(load.targets))
        },
    }


def _k6_scenario(load: Load) -> dict[str, Any]:
    common = {"duration": f"{load.duration_s}s", "gracefulStop": _K6_GRACE, "exec": "load_"}
    if load.rate is None:
        return {"executor": "constant-vus", "vus": load.users, **common}
    return {
        "executor": "constant-arrival-rate",
        "rate": load.rate,
        "timeUnit": "1s",
        "preAllocatedVUs": load.rate,
        "maxVUs": load.rate * _K6_USERS_PER_RATE,
        **common,
    }


def _aiperf(load: Load) -> str:
    """Source: AIPerf 0.13, `aiperf profile --help`."""
    if load.api != "chat":
        raise NotSupported("--export aiperf: only chats of vLLM, not Triton's inference requests")
    if load.body is not None:
        raise NotSupported("--export aiperf: AIPerf makes its own requests; remove --body")
    return " ".join(shlex.quote(word) for word in _aiperf_words(load)) + _aiperf_key(load)


def _aiperf_words(load: Load) -> Sequence[str]:
    pace = (
        ("--concurrency", str(load.users))
        if load.rate is None
        else ("--request-rate", str(load.rate), "--arrival-pattern", "constant")
    )
    fresh = ("--connection-reuse-strategy", "never") if load.fresh_connections else ()
    return (
        *("aiperf", "profile", "--model", load.model, "--endpoint-type", "chat", "--streaming"),
        *(word for target in load.targets for word in ("--url", target.url)),
        *pace,
        *("--benchmark-duration", str(load.duration_s), "--output-tokens-mean", str(load.tokens)),
        *("--use-server-token-count", *fresh),
    )


def _aiperf_key(load: Load) -> str:
    return ' --api-key "$SLICEWRIGHT_API_KEY"' if load.key else ""
