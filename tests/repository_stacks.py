"""The stack files of this repository; beside them in `stacks/` lie those of whoever uses it."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / "stacks"
NAMES = ("s0", "s0-serving", "s1", "s2", "s3", "s4", "s4-autoscaling", "s4-serving")
STACKS = tuple(sorted(DIRECTORY / f"Pulumi.{name}.yaml" for name in NAMES))
