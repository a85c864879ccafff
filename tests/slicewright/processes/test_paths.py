"""Every option that names a file or a directory, and something else is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from slicewright import cli
from tests.slicewright.processes.outside import EKS, EXISTING, SERVING, Outside, silent

HOSTS: Final = str(Path(EXISTING).with_name("Pulumi.hosts-a100.yaml"))
DEMAND: Final = str(Path(__file__).parents[2] / "infra/planner/demand.yaml")
READS: Final[Mapping[str, Sequence[str]]] = {
    "check FILE": ("check", "PATH"),
    "plan FILE": ("plan", "PATH"),
    "optimise FILE": ("optimise", "PATH"),
    "optimise --from-trace": ("optimise", DEMAND, "--from-trace", "PATH"),
    "optimise --from-manifests": ("optimise", DEMAND, "--from-manifests", "PATH"),
    "optimise --kubeconfig": ("optimise", DEMAND, "--from-cluster", "--kubeconfig", "PATH"),
    "plan --diff": ("plan", "--diff", EKS, "PATH"),
    "rights FILE": ("rights", "PATH"),
    "doctor FILE": ("doctor", "PATH"),
    "preview-report PREVIEW": ("preview-report", "-s", EKS, "PATH"),
    "preview-report --before": ("preview-report", "-s", EKS, "--before", "PATH", "preview.json"),
    "preview-report --stack": ("preview-report", "-s", "PATH", "preview.json"),
    "import-file PREVIEW": ("import-file", "-s", EKS, "PATH"),
    "status --kubeconfig": ("status", "--kubeconfig", "PATH"),
    "rollout --kubeconfig": ("rollout", "pause", "p", "--kubeconfig", "PATH"),
    "drift --stack": ("drift", "-s", "PATH"),
    "load --body": ("load", "-s", SERVING, "llm", "--url", "http://127.0.0.1:1", "--body", "PATH"),
    "load --key-file": ("load", "-s", SERVING, "llm", "--url", "http://a", "--key-file", "PATH"),
    "destroy --file": ("destroy", "-s", "dev", "--yes", "--file", "PATH"),
}
WRITES: Final[Mapping[str, Sequence[str]]] = {
    "deployed --write": ("deployed", "-s", "dev", "--write", "PATH"),
    "optimise --output": ("optimise", DEMAND, "--output", "PATH"),
    "plan --hosts-dir": ("plan", HOSTS, "--hosts-dir", "PATH"),
    "init DIRECTORY": ("init", "PATH", "--yes", "--cloud", "existing", "--contexts", "c"),
}
HISTORY: Final = (
    '[{"kind": "update", "result": "succeeded", "config": {"slicewright:fleet": '
    '{"objectValue": {"cloud": "byo"}}}}]'
)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with silent(tmp_path) as outside:
        outside.pulumi(f"print({HISTORY!r})")
        (tmp_path / "not-utf-8").write_bytes(b"\xff\xfe\xfa" * 3 + b"a")
        (tmp_path / "brackets").write_text("[" * 1_000_000)
        (tmp_path / "nul").write_bytes(bytes(1000))
        (tmp_path / "crlf").write_bytes(b"a\r\n\r\n\tb: [\r\n")
        (tmp_path / "empty").touch()
        (tmp_path / "loop").symlink_to("loop")
        yield outside


def run(outside: Outside, words: Sequence[str], path: str) -> tuple[int, str, str]:
    return outside.start(argv=[path if word == "PATH" else word for word in words]).end()


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "/nowhere/file",
        "x" * 5000,
        "loop",
        "/dev/zero",
        "not-utf-8",
        "nul",
        "brackets",
        "crlf",
        "empty",
    ],
    ids=lambda path: path[:20],
)
def test_every_option_answers_an_odd_path_with_a_message(path: str, outside: Outside) -> None:
    for option, words in READS.items():
        code, out, err = run(outside, words, path)
        assert (code in (cli.BAD_INPUT, cli.CANNOT_RUN), "Traceback" in out + err) == (
            True,
            False,
        ), (option, code, out[-2000:], err[-2000:])
        assert len(out + err) < 12_000, option


@pytest.mark.parametrize("path", [".", "/dev/full", "/proc/no/file", "x" * 5000, "loop"])
def test_an_output_that_cannot_be_written_is_one_line(path: str, outside: Outside) -> None:
    for option, words in WRITES.items():
        if path == "." and option in ("plan --hosts-dir", "init DIRECTORY"):
            continue  # a directory is right
        code, out, err = run(outside, words, path)
        assert (code, err.count("\n")) == (cli.CANNOT_RUN, 1), (option, out, err)
        assert "Traceback" not in err
