"""The zipapps are reproducible, fit into a ConfigMap, and run without anything installed."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.infra import delivery
from slicewright.infra.delivery import DeliveryError, Zipapp

BOTH = pytest.mark.parametrize(
    "make", [delivery.node_agent, delivery.fleet_controller], ids=["node_agent", "fleet_controller"]
)


@BOTH
def test_zipapp_runs_without_installed_packages(make: Callable[[], Zipapp], tmp_path: Path) -> None:
    app = make()
    file = tmp_path / app.name
    file.write_bytes(app.content)
    # -I -S: no site-packages, no environment; as in a bare Python image.
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


@BOTH
def test_zipapp_is_small_and_holds_only_sources(make: Callable[[], Zipapp]) -> None:
    app = make()
    assert len(app.content) <= 700 * 1024
    with zipfile.ZipFile(io.BytesIO(app.content)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert [n for n in names if not n.endswith(".py")] == []
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@BOTH
def test_the_same_sources_give_the_same_bytes(make: Callable[[], Zipapp]) -> None:
    first = make()
    make.cache_clear()  # type: ignore[attr-defined]
    second = make()
    assert second == first


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "delivered_example"
    directory.mkdir()
    (directory / "__init__.py").write_text("")
    (directory / "cli.py").write_text("def main() -> int:\n    print('here')\n    return 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return directory


def built() -> Zipapp:
    return delivery.build("x.pyz", ("delivered_example",), "delivered_example.cli")


def test_the_hash_changes_with_a_source_and_not_with_its_time_or_bytecode(package: Path) -> None:
    before = built()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "cli.cpython-311.pyc").write_bytes(b"x")
    (package / "cli.py").touch()
    assert built() == before
    (package / "cli.py").write_text((package / "cli.py").read_text() + "# changed\n")
    assert built().sources_hash != before.sources_hash


def test_zipapp_exits_with_the_code_of_main(package: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.pyz"
    file.write_bytes(built().content)
    done = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (7, "here\n")


def test_missing_package_is_named() -> None:
    with pytest.raises(DeliveryError, match="no_such_package is not installed"):
        delivery.build("x.pyz", ("no_such_package",), "no_such_package.cli")


def test_too_large_zipapp_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_BYTES", 100)
    with pytest.raises(DeliveryError, match="to fit into a ConfigMap"):
        built()


def _packed(*files: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as written, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a path that is there twice
        for path, content in files:
            written.writestr(path, content)
    return packed.getvalue()


FILES = (("__main__.py", b"import a\n" * 50), ("a.py", b""))
APP = Zipapp(name="x.pyz", content=_packed(*FILES), sources_hash="0" * 64)


@pytest.mark.parametrize(
    "archive",
    [APP.content, _packed(*FILES, compression=zipfile.ZIP_DEFLATED), _packed(*reversed(FILES))],
    ids=["bytes", "compression", "order"],
)
def test_zipapps_with_equal_files_do_not_differ(archive: bytes) -> None:
    assert APP.difference(base64.b64encode(archive).decode()) is None


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (None, "x.pyz is missing"),
        ("", "x.pyz: it is not a readable archive"),
        ("not base64!", "x.pyz: "),
        (_packed(FILES[0]), "x.pyz: 1 of its files differ, the first is a.py"),
        (_packed(*FILES, ("b.py", b"")), "x.pyz: 1 of its files differ, the first is b.py"),
        (
            _packed(("__main__.py", b"other"), ("b.py", b"")),
            "x.pyz: 3 of its files differ, the first is __main__.py",
        ),
        (_packed(*FILES, ("a.py", b"")), "x.pyz: it contains a path twice"),
        (APP.content[:-30], "x.pyz: it is not a readable archive"),
    ],
    ids=lambda v: v if isinstance(v, str) and v.startswith("x.pyz") else "",
)
def test_difference_of_two_zipapps_is_described(live: bytes | str | None, said: str) -> None:
    text = base64.b64encode(live).decode() if isinstance(live, bytes) else live
    assert (APP.difference(text) or "").startswith(said)


def test_delivered_zipapps_do_not_differ_from_themselves() -> None:
    for app in (delivery.node_agent(), delivery.fleet_controller()):
        assert app.difference(app.base64) is None
