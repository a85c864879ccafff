"""The stack files of this repository; beside them in `stacks/` lie those of whoever uses it."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / "stacks"
NAMES = (
    "gke-h100",
    "gke-h100-serving",
    "eks-a100",
    "hosts-a100",
    "fractional",
    "existing-a100-t4",
    "existing-a100-t4-autoscaling",
    "existing-a100-t4-serving",
)
STACKS = tuple(sorted(DIRECTORY / f"Pulumi.{name}.yaml" for name in NAMES))
