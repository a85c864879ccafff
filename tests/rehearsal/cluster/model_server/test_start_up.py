"""Servers that share a cache: one downloads the model, and the others find it."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.cluster.model_server import flags
from slicewright.rehearsal.cluster.model_server.start_up import Phase, phases

FLAGS = flags.parse(["--model=org/small"], release="0.6.2")


def test_a_second_server_waits_for_the_download_of_the_first_and_finds_the_model(
    tmp_path: Path,
) -> None:
    first, second = phases(FLAGS, tmp_path), phases(FLAGS, tmp_path)
    assert "downloading org/small" in next(first).text
    assert "another server downloads org/small" in next(second).text
    assert next(second).text == "", "it still waits, and says so once"
    assert "Starting to load" in next(first).text
    assert "is in the cache" in next(second).text
    assert "is in the cache" in next(phases(FLAGS, tmp_path)).text


def test_next_server_downloads_the_model_if_the_first_ends_early(tmp_path: Path) -> None:
    first, second = phases(FLAGS, tmp_path), phases(FLAGS, tmp_path)
    next(first)
    assert "another server" in next(second).text
    first.close()  # type: ignore[attr-defined]
    assert "downloading org/small" in next(second).text


def test_servers_with_caches_of_their_own_download_it_each(tmp_path: Path) -> None:
    begun: list[Phase] = [next(phases(FLAGS, tmp_path / name)) for name in ("a", "b")]
    assert all("downloading" in one.text for one in begun)
