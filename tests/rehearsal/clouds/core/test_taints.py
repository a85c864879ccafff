"""Taints are merged by key and effect."""

from __future__ import annotations

from slicewright.rehearsal.clouds.core.taints import changed_taints, kubernetes_taints

OLD = {"key": "k", "value": "old", "effect": "NO_SCHEDULE"}


def test_an_added_taint_replaces_the_one_of_the_same_key_and_effect() -> None:
    new = {**OLD, "value": "new"}
    other = {**OLD, "effect": "NO_EXECUTE"}
    assert changed_taints([OLD, other], add=[new], remove=[]) == [other, new]


def test_a_taint_is_removed_whatever_its_value() -> None:
    assert changed_taints([OLD], add=[], remove=[{"key": "k", "effect": "NO_SCHEDULE"}]) == []


def test_kubernetes_has_other_names_for_effects() -> None:
    assert kubernetes_taints([{"key": "k", "effect": "PREFER_NO_SCHEDULE"}]) == [
        {"key": "k", "value": "", "effect": "PreferNoSchedule"}
    ]
