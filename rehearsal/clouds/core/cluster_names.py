"""Cluster names, unique within an environment: a cluster's directory is named after it."""

from __future__ import annotations

from typing import TypedDict

from slicewright.rehearsal.clouds.core.store import Kind, Store


class _Claim(TypedDict):
    owner: str


_CLAIMS = Kind[_Claim]("cluster-names")


class NameTaken(Exception):
    """Another cluster of the environment has the name, in this cloud or the other."""

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(
            f"The rehearsal already has a cluster named {name} ({owner}); one name per environment."
        )


def claim(store: Store, name: str, *, owner: str) -> None:
    """Raises NameTaken. Call it under the store's lock."""
    claimed_by = store.get(_CLAIMS, name)
    if claimed_by and claimed_by["owner"] != owner:
        raise NameTaken(name, claimed_by["owner"])
    store.put(_CLAIMS, name, _Claim(owner=owner))


def release(store: Store, name: str) -> None:
    store.delete(_CLAIMS, name)
