"""How `slicewright doctor` answers wrong use, without any cloud."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name exactly one stack (-s gke-h100) or FILE"),
        (["-s", "gke-h100", "-s", "eks-a100"], "name exactly one stack (-s gke-h100) or FILE"),
        (["-s", "hosts-a100"], "hosts-a100 has hosts only: no account or cluster to check"),
    ],
)
def test_wrong_use_is_one_message(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(["doctor", *arguments]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"slicewright doctor: {said}\n")


def test_a_wrong_stack_file_is_reported_before_any_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config: {slicewright:fleet: {cloud: eks}}\n")
    assert cli.main(["doctor", str(file)]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "Pulumi.x.yaml" in err


def test_a_missing_cloud_library_is_reported_with_the_package_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(sys.modules, "botocore", None)
    assert cli.main(["doctor", "-s", "eks-a100"]) == CANNOT_RUN
    assert "pip install botocore" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)
    assert cli.main(["doctor", "-s", "gke-h100"]) == CANNOT_RUN
    assert "pip install google-auth" in capsys.readouterr().err
