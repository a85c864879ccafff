"""A setting of the rollout policy is written in at most three files of the product.

These are the model, the stack file's schema, and one reader of the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from slicewright.apis.gpu_pool.rollout_policy import SETTINGS
from slicewright.apis.gpu_pool.settings import key_of
from slicewright.infra import stack_file

ROOT = Path(__file__).parent.parent
PRODUCT = ("apis", "fleet_controller", "infra", "node_agent", "policy", "slicewright")
MOST = 3
DECLARED_IN = {"apis/gpu_pool/rollout_policy.py", "infra/stack_file/schema/rollout.py"}
STACK_FILE_KEYS: Mapping[str, str] = {
    "timeout_s": "drain_timeout_minutes",
    "on_timeout": "on_drain_timeout",
    "pods": "evict",
}
"""Field -> its key in a stack file, if that differs."""
WORDS = ("evict", "pods", "quarantine", "timeout_s")
"""Names that other things have, too. They count as an attribute of a policy."""
HOMONYMS: Mapping[str, Mapping[str, str]] = {
    "max_unavailable": {
        "infra/components/eks/node_groups.py": "EKS, updateConfig",
        "infra/components/fleet/controller.py": "PodDisruptionBudget and Deployment",
        "infra/components/gke/node_pools.py": "GKE, upgradeSettings",
        "infra/components/fleet/node_agent.py": "DaemonSet",
        "infra/manifests/fractional/hami.py": "DaemonSet",
        "infra/manifests/rollout_warnings.py": "an EKS pool's `update`",
        "infra/plan/changes/settings_rules.toml": "a workload's key",
        "infra/plan/eks/karpenter_pools.py": "an EKS pool's `update`",
        "infra/plan/gke/capacity.py": "a GKE pool's `upgrade`",
        "infra/stack_file/reading/synonyms.py": "an EKS pool's `update` and a GKE pool's `upgrade`",
        "infra/stack_file/schema/eks/pools.py": "an EKS pool's `update`",
        "infra/stack_file/schema/gke/upgrade.py": "a GKE pool's `upgrade`",
        "infra/stack_file/schema/workloads/serving.py": "a workload's key",
        "infra/manifests/workloads/objects.py": "Deployment and PodDisruptionBudget",
        "policy/rules/drivers.py": "the GPU operator's upgradePolicy",
    },
    "timeout_s": {"infra/manifests/workloads/objects.py": "timeoutSeconds of a probe"},
}
"""Field -> files that have the word for another thing, and whose it is."""
EKS_REFUSES: Mapping[str, set[str]] = {
    "max_unavailable_percent": {"infra/stack_file/schema/eks/pools.py"}
}
"""Replaced key -> the schema of an EKS pool, whose `update` had the same key."""


def _files() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for package in PRODUCT
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in (".py", ".toml") and ".venv" not in path.parts
    }


FILES = _files()


def _pattern(field: str) -> re.Pattern[str]:
    names = {field, key_of(field), STACK_FILE_KEYS.get(field, field)}
    return re.compile(
        "|".join(
            rf"\b(?:policy|drain|rollout)\.{name}\b" if name in WORDS else rf"\b{name}\b"
            for name in sorted(names)
        )
    )


def _files_with(field: str) -> set[str]:
    pattern = _pattern(field)
    return {name for name, text in FILES.items() if pattern.search(text)}


@pytest.mark.parametrize("field", SETTINGS)
def test_a_setting_of_the_rollout_policy_is_written_in_three_files(field: str) -> None:
    readers = _files_with(field) - HOMONYMS.get(field, {}).keys() - DECLARED_IN
    assert len(readers) <= MOST - len(DECLARED_IN), readers


@pytest.mark.parametrize("field", HOMONYMS)
def test_a_homonym_is_listed_only_while_its_file_has_it(field: str) -> None:
    assert HOMONYMS[field].keys() <= _files_with(field)


@pytest.mark.parametrize("field", SETTINGS)
def test_setting_is_found_at_its_declaration(field: str) -> None:
    """Otherwise a mistake in the pattern would find no file at all."""
    if field not in WORDS:
        assert _files_with(field) >= DECLARED_IN


def test_every_key_of_a_rollout_is_a_field_of_the_policy() -> None:
    keys = {STACK_FILE_KEYS.get(field, field) for field in SETTINGS}
    assert keys == stack_file.Rollout.model_fields.keys()


@pytest.mark.parametrize("key", sorted(stack_file.Rollout.replaced_keys))
def test_replaced_keys_remain_only_in_their_refusal(key: str) -> None:
    pattern = re.compile(rf"\b(?:{key}|{key_of(key)})\b")
    files = {name for name, text in FILES.items() if pattern.search(text)}
    assert files == {"infra/stack_file/schema/rollout.py"} | EKS_REFUSES.get(key, set())
