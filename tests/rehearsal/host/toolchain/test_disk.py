"""Disk space: what is missing, where, and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from slicewright.rehearsal.host.toolchain import disk

REMEDY = "choose another --directory"


def test_enough_space_is_no_reason(tmp_path: Path) -> None:
    assert disk.why_not_enough({tmp_path / "new": 1}, "a rehearsal", REMEDY) is None


def test_too_little_space_is_named_with_directory_sizes_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free", lambda _: 120_000_000)
    reason = disk.why_not_enough({tmp_path / "new" / "E": 500e6}, "a rehearsal", REMEDY)
    assert reason == (
        f"{tmp_path}/new/E has 120 MB free, a rehearsal needs 500 MB; choose another --directory"
    )


def test_needs_on_one_file_system_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free", lambda _: 5_000_000_000)
    needed = {tmp_path / "a": 4e9, tmp_path / "b": 2e9}
    reason = disk.why_not_enough(needed, "building pulumi", REMEDY)
    assert reason is not None
    assert reason.startswith(f"{tmp_path}/a has 5.0 GB free, building pulumi needs 6.0 GB")


def test_a_full_disk_is_recognised_by_error_and_by_output() -> None:
    assert disk.is_full(OSError(errno.ENOSPC, "No space left on device"))
    assert disk.is_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not disk.is_full(OSError(errno.EACCES, "Permission denied"))
    assert disk.says_full("error: write /x/state.json: no space left on device")
    assert disk.says_full("OSError: [Errno 28] No space left on device: '/x'")
    assert not disk.says_full("error: write /x/state.json: permission denied")


def test_used_counts_files_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(bytes(1000))
    assert disk.used(tmp_path, up_to=5000) == 1000
    assert disk.used(tmp_path, up_to=100) == 100
    assert disk.used(tmp_path / "none", up_to=100) == 0
