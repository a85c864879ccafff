"""The layouts that a pool has had, and the target of an undo. Pure.

The controller remembers a pool's verified layouts in the pool's status. Each comes with the
desired-state file of that time, because Pulumi's program keeps no history. An undo goes back to the
last of them that is not the declared one. It names the layout that it undoes, so it ends without
further requests when the stack file declares another one, even if that is the old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from slicewright.apis.names import LONGEST_DESIRED, MOST_REMEMBERED

OF_A_LAYOUT: Final = frozenset({"gpus", "resources", "labels", "minimum_driver"})
"""The keys of a desired state that follow from the partitions alone, and may differ after an undo.

The other keys come from other parts of the stack, which an undo leaves as they are: for example,
the sharing comes from the device plugin's config. Source: apis/desired_state.py.
"""


@dataclass(frozen=True, kw_only=True)
class KnownLayout:
    """A layout that the agents of a pool can verify."""

    mig_config: str
    """Value of nvidia.com/mig.config."""
    layout_hash: str
    """SHA-256 of `desired`, which a report must name."""
    desired: str
    """The desired state of a node, as in the agent's file, or empty if not known."""


def read_layout(raw: Mapping[str, Any]) -> KnownLayout | None:
    """Reads a layout from a pool's spec, or from an entry of its status.

    Returns None unless agents could verify the layout: it must be a layout of mig-manager's, its
    text must match the hash, and must not be longer than a pool's may be.
    """
    name, digest, desired = (raw.get(k) for k in ("migConfig", "layoutHash", "desiredState"))
    if not (isinstance(name, str) and name and isinstance(desired, str)):
        return None
    if len(desired) > LONGEST_DESIRED:
        return None
    if not _is_object(desired) or hashlib.sha256(desired.encode()).hexdigest() != digest:
        return None
    return KnownLayout(mig_config=name, layout_hash=digest, desired=desired)


def read_desired_annotation(text: str | None) -> str:
    """Returns the desired state in a node's annotation, or an empty text for None.

    The text is compared with the pool's and never parsed. If it is longer than any pool's, its
    SHA-256 replaces it.
    """
    if not text or len(text) <= LONGEST_DESIRED:
        return text or ""
    return "sha256:" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


# Called for each pool in each pass, with about the same few texts.
@lru_cache(maxsize=64)
def _is_object(desired: str) -> bool:
    """True if an agent could read the text at all: it is a JSON object."""
    try:
        desired.encode()
        return isinstance(json.loads(desired), dict)
    except (ValueError, RecursionError):
        return False


def verified_layouts(status: Mapping[str, Any]) -> tuple[KnownLayout, ...]:
    """Returns the layouts that were verified on the pool, the latest first."""
    read = (read_layout(entry) for entry in status.get("provenLayouts") or ())
    return tuple(layout for layout in read if layout is not None)


def remembered(
    declared: KnownLayout | None, status: Mapping[str, Any], *, verified: bool
) -> list[dict[str, str]]:
    """Returns `provenLayouts` of the next status.

    verified: True if nodes of the pool have just been verified with `declared`.
    """
    layouts: Sequence[KnownLayout] = verified_layouts(status)
    if verified and declared is not None and declared.desired:
        layouts = [
            declared,
            *(layout for layout in layouts if layout.mig_config != declared.mig_config),
        ]
    return [
        {
            "migConfig": layout.mig_config,
            "layoutHash": layout.layout_hash,
            "desiredState": layout.desired,
        }
        for layout in layouts[:MOST_REMEMBERED]
    ]


def target_of_undo(declared: KnownLayout | None, status: Mapping[str, Any]) -> KnownLayout | str:
    """Returns the layout that an undo of `declared` goes back to, or why there is none."""
    if declared is None:
        return (
            "NVIDIA's mig-manager does not partition its nodes, so another layout needs new "
            "nodes: write the old layout into the stack file and run `pulumi up`"
        )
    target = next(
        (e for e in verified_layouts(status) if e.mig_config != declared.mig_config), None
    )
    if target is None:
        return (
            f"it has been verified with no layout other than {declared.mig_config}, so there is "
            "none to go back to"
        )
    if changed_keys := _changed_keys(declared, target):
        return (
            f"since it was verified with layout {target.mig_config} the stack file has changed "
            f"more than the partitions ({', '.join(changed_keys)}), which agents could not "
            "verify: write the old state into the stack file and run `pulumi up`"
        )
    return target


def _changed_keys(declared: KnownLayout, target: KnownLayout) -> list[str]:
    """Returns the keys that differ in the desired states without following from the partitions."""
    now, then = json.loads(declared.desired or "{}"), json.loads(target.desired)
    return sorted(key for key in {*now, *then} - OF_A_LAYOUT if now.get(key) != then.get(key))
