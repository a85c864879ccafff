"""A look for drift beside an update: the state is half way then, and the cloud, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slicewright.doctor.findings import CannotAsk
from slicewright.drift.comparisons import DriftCheck
from slicewright.drift.findings import Drift
from slicewright.infra import plan
from slicewright.live.access import NoCluster
from slicewright.locks import lock_queries

ROOT = Path(__file__).resolve().parents[3]
CHANGED = {"steps": [{"op": "create", "urn": "urn:pulumi:x::p::a:b/c:D::e", "newState": {}}]}


class Engine:
    """Each look finds something that is declared and was not made."""

    def __init__(self) -> None:
        self.looks = 0

    def previewed(self) -> str:
        self.looks += 1
        return json.dumps(CHANGED)

    def refreshed(self) -> str:
        return json.dumps({"steps": []})


def no_cluster() -> object:
    raise NoCluster("none")


def looked(*holders: Sequence[str]) -> tuple[Drift, Engine]:
    """holders: before the look, and after it."""
    answers = iter(holders)
    engine = Engine()
    cluster: Callable[[], object] = no_cluster
    drift = DriftCheck(
        stack="x",
        fleet=plan.read_file(ROOT / "stacks" / "Pulumi.gke-h100.yaml"),
        pulumi=engine,
        pending=(),
        cluster=cluster,  # type: ignore[arg-type]
        tell=lambda line: None,
        holders=lambda: next(answers),
    ).look()
    return drift, engine


HOLDER = "pulumi 7 of ci on runner-1, since 2026-11-28T02:00:00+00:00"


def test_a_difference_without_a_running_update_is_drift() -> None:
    drift, _ = looked((), ())
    assert drift.state == "drift"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_beside_an_update_nothing_is_called_drift_and_nothing_is_called_none(when: str) -> None:
    drift, engine = looked((HOLDER,)) if when == "before" else looked((), (HOLDER,))
    assert (drift.state, drift.findings) == ("unseen", ())
    assert {unseen.comparison for unseen in drift.unseen} == set(drift.compared)
    assert all(HOLDER in unseen.why for unseen in drift.unseen)
    assert "slicewright unlock --stack x" in drift.unseen[0].remedy
    assert engine.looks == (0 if when == "before" else 1)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: fleet\nruntime: python\n")
    script = tmp_path / "bin" / "pulumi"
    script.parent.mkdir()
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")

    def backend(url: str) -> None:
        script.write_text(f"#!{sys.executable}\nprint({json.dumps({'url': url})!r})\n")
        script.chmod(0o755)

    return backend


def test_the_holder_of_a_lock_is_named_and_an_unreadable_lock_counts(
    tmp_path: Path, backend: Callable[[str], None]
) -> None:
    backend(f"file://{tmp_path}/state")
    assert lock_queries.holders("prod") == ()
    locks = tmp_path / "state/.pulumi/locks/organization/fleet/prod"
    locks.mkdir(parents=True)
    lock = {"pid": 7, "username": "ci", "hostname": "runner-1"}
    (locks / "a.json").write_text(json.dumps({**lock, "timestamp": "2026-11-28T02:00:00Z"}))
    (locks / "b.json").write_text("{")
    named, unreadable = lock_queries.holders("prod")
    assert named == HOLDER
    assert "is not a lock in Pulumi's format" in unreadable


@pytest.mark.parametrize("url", ["https://api.pulumi.com", "azblob://b"])
def test_a_backend_whose_locks_are_not_read_says_of_none(
    backend: Callable[[str], None], url: str
) -> None:
    backend(url)
    assert lock_queries.holders("prod") == ()


def test_a_missing_pulumi_is_no_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotAsk, match="install it"):
        lock_queries.holders("prod")
