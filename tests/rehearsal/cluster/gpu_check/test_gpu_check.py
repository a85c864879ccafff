"""`make gpu-check` with a fake as the driver: it equals itself, and an altered table is named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.rehearsal.cluster.gpu_check.__main__ import CANNOT_RUN, DIFFERENT, SAME, main
from slicewright.rehearsal.cluster.gpu_check.comparing import Difference, differences
from slicewright.rehearsal.cluster.gpu_check.page import name
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import LIBRARY

Check = Callable[..., int]


def _built(sources: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    flags = ["-shared", "-fPIC", "-O1", "-pthread", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(
        ["cc", *flags, *map(str, sorted(sources.glob("*.c"))), "-o", str(to / "libnvidia-ml.so.1")],
        check=True,
    )
    return to


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(LIBRARY, tmp_path_factory.mktemp("gpu-check") / "lib")


@pytest.fixture
def check(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """`check(model, ["3g.40gb"])`: as with such GPUs and partitions; writes tmp_path/pages."""

    def run(
        model: str, cut: list[str] | None = None, *, driver: Path = library, **injected: int
    ) -> int:
        path = tmp_path / "silicon" / "state"
        state.create(path, model, 2, "580.65.06", "real")
        if cut:
            for index in range(2):
                state.repartition(path, index, cut)
        state.inject(
            path, *(state.Injection(call=call, code=code) for call, code in injected.items())
        )
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
        monkeypatch.setenv(state.VARIABLE, str(path))
        before = path.read_bytes(), path.stat().st_mtime_ns
        code = main(["--to", str(tmp_path / "pages")])
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before, "it reads only"
        return code

    return run


@pytest.mark.parametrize(
    ("model", "cut"),
    [
        ("H100-80", None),
        ("H100-80", ["3g.40gb", "1c.3g.40gb"]),
        ("A100-40", ["1g.5gb"] * 7),
        ("RTX-PRO-6000", ["1g.24gb+gfx", "1g.24gb-me"]),
        ("A30", ["2g.12gb+me"]),
        ("L4", None),
    ],
)
def test_the_fake_does_not_differ_from_itself(
    model: str, cut: list[str] | None, check: Check, tmp_path: Path
) -> None:
    assert check(model, cut) == SAME
    (page,) = (tmp_path / "pages").glob("*.md")
    (told,) = (json.loads(file.read_text()) for file in (tmp_path / "pages").glob("*.json"))
    assert told["differences"] == []
    assert told["simulated"] is True
    assert "SIMULATED" in page.read_text()
    assert "## What differs from the fake\n\nNothing.\n" in page.read_text()
    assert len(told["gpus"]) == 2


def test_an_altered_table_is_named(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    altered = Path(shutil.copytree(LIBRARY, tmp_path / "altered"))
    table = (altered / "models.def").read_text()
    row = 'SLICE("H100-80", "3g.40gb", 2, 9, 3, 2, 0x11, 4, 60, 40448,'
    assert row in table
    (altered / "models.def").write_text(
        table.replace(row, 'SLICE("H100-80", "3g.40gb", 2, 9, 3, 1, 0x01, 4, 58, 40448,')
    )
    assert check("H100-80", driver=_built(altered, tmp_path / "driver")) == DIFFERENT
    said = capsys.readouterr().out
    for line in (
        "profile 3g.40gb, multiprocessors: 58, on the fake 60",
        "profile 3g.40gb, most: 1, on the fake 2",
        "places, 3g.40gb, starts: [0], on the fake [0, 4]",
    ):
        assert line in said
    assert "3 difference(s) from the fake" in said
    assert (
        "| profile 3g.40gb, multiprocessors | 58 | 60 |"
        in (tmp_path / "pages/nvidia-h100-80gb-hbm3-580.65.06.md").read_text()
    )


def test_another_error_code_is_named(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("H100-80", ["7g.80gb"], nvmlDeviceGetUtilizationRates=999) == DIFFERENT
    assert "answers, nvmlDeviceGetUtilizationRates: 999, on the fake 3" in capsys.readouterr().out


def test_a_gpu_that_is_lost_is_named_and_the_others_are_compared(
    check: Check,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = state.create

    def with_one_lost(path: Path, *what: Any) -> Any:
        made = create(path, *what)
        return state.lose(path, 0) if "silicon" in path.parts else made

    monkeypatch.setattr(state, "create", with_one_lost)
    assert check("H100-80") == DIFFERENT
    said = capsys.readouterr().out
    assert "GPU 0: not compared: nvmlDeviceGetHandleByIndex: GPU is lost" in said
    assert "NVIDIA H100 80GB HBM3: 0 difference(s) from the fake" in said


def test_a_model_that_the_fake_does_not_have_gets_a_page(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    altered = Path(shutil.copytree(LIBRARY, tmp_path / "altered"))
    table = (altered / "models.def").read_text()
    (altered / "models.def").write_text(table.replace('"Tesla T4", 0x1EB8', '"NVIDIA T5", 0x1EB9'))
    assert check("T4", driver=_built(altered, tmp_path / "driver")) == DIFFERENT
    assert (
        "not compared: the fake has no model like NVIDIA T5 (0x1eb910de)" in capsys.readouterr().out
    )
    assert "Not compared" in (tmp_path / "pages/nvidia-t5-580.65.06.md").read_text()


def test_unwritable_pages_are_reported_in_one_line(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages").write_text("a file")
    assert check("L4") == CANNOT_RUN
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"gpu-check: {tmp_path / 'pages'} cannot be written: File exists; name another directory "
        "with --to\n"
    )


def test_without_a_driver_there_is_one_line_and_no_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    library: Path,
) -> None:
    # The library without its state is a driver whose kernel module is not loaded.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.delenv(state.VARIABLE, raising=False)
    assert main(["--to", str(tmp_path / "pages")]) == CANNOT_RUN
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        said.err
        == "gpu-check: no NVIDIA driver answers on this machine: Driver Not Loaded (nvmlInit)\n"
    )
    assert not (tmp_path / "pages").exists()


_GPU: dict[str, Any] = {
    "model": "NVIDIA X", "pci_device": "0x1", "compute_capability": [9, 0], "memory_mib": 1,
    "memory_slices": 8,
    "mig": "enabled", "mig_pending": "enabled", "places": {"1g.5gb": {"starts": [0, 1],
    "size": 1}}, "devices": [],
    "offered": [{"id": 19, "name": "1g.5gb", "slices": 1, "engines": {"jpeg": 0}}],
    "utilization_failure": None,
    "answers": {"a": 0, "b": 3}, "error_texts": {"3": "Not Supported"}, "constants": {"cores": 1},
    "fields": {"1": "type 3"}, "utilization_metrics": {},
}  # fmt: skip


def test_nothing_differs_from_itself() -> None:
    assert differences(_GPU, _GPU) == ()


@given(st.sampled_from(["model", "pci_device", "memory_mib", "mig", "memory_slices"]), st.text())
def test_every_changed_fact_is_named(key: str, value: str) -> None:
    assert differences({**_GPU, key: value}, _GPU) == (
        Difference(what=key, real=value, fake=str(_GPU[key])),
    )


def test_value_of_only_one_side_is_a_difference() -> None:
    more = {**_GPU, "answers": {"a": 0, "b": 3, "c": 2}}
    assert differences(more, _GPU) == (Difference(what="answers, c", real="2", fake="(absent)"),)
    assert differences(_GPU, more) == (Difference(what="answers, c", real="(absent)", fake="2"),)


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3-550.90.07"),
        ("NVIDIA A100/../x", "nvidia-a100-..-x-550.90.07"),
    ],
)
def test_a_page_is_named_after_model_and_driver(model: str, file: str) -> None:
    assert name({"model": model}, "550.90.07") == file
