"""The jobs that post a report, as shells run them: `gh` is a stand-in, and GitLab a small server.

The report was written by a request's code: nothing in it may reach more than one comment's text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
import yaml

from tests.gitops.pipelines import GITHUB, GITLAB, extended

MARK: Final = "<!-- slicewright preview-report production -->"
TOKEN: Final = "glpat-a-token-of-a-test"
_GH: Final = """\
#!{python}
import json, os, pathlib, subprocess, sys
here = pathlib.Path({here!r})
call = {{"arguments": sys.argv[1:]}}
for argument in sys.argv:
    if argument.startswith("body=@"):
        call["body"] = pathlib.Path(argument[len("body=@"):]).read_text()
with (here / "calls").open("a") as file:
    file.write(json.dumps(call) + "\\n")
if "--jq" in sys.argv:
    program = sys.argv[sys.argv.index("--jq") + 1]
    comments = (here / "comments.json").read_text()
    print(subprocess.run(["jq", "-r", program], input=comments, text=True, check=True,
                         stdout=subprocess.PIPE).stdout, end="")
"""


@dataclass
class GitHubJob:
    """The job `comment` in its working directory."""

    directory: Path
    comments: list[Mapping[str, Any]] = field(default_factory=list)

    def report(self, text: bytes) -> None:
        (self.directory / "report").mkdir()
        (self.directory / "report" / "report.md").write_bytes(text)

    def run(self) -> tuple[int, list[dict[str, Any]]]:
        job = yaml.safe_load((GITHUB / "workflows" / "preview.yaml").read_text())["jobs"]["comment"]
        (step,) = (step for step in job["steps"] if "run" in step)
        programs = self.directory / "bin"
        programs.mkdir()
        (programs / "gh").write_text(_GH.format(python=sys.executable, here=str(self.directory)))
        (programs / "gh").chmod(0o755)
        (self.directory / "comments.json").write_text(json.dumps(self.comments))
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "STACK": "production",
            "COMMENTS": "repos/o/r/issues/7/comments",
            "ARTIFACTS": "https://github.com/o/r/actions/runs/1#artifacts",
            "GH_TOKEN": "t",
        }
        assert step["env"].keys() == environment.keys() - {"PATH"}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        calls = self.directory / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return done.returncode, [json.loads(line) for line in lines]


@pytest.fixture
def job(tmp_path: Path) -> GitHubJob:
    return GitHubJob(tmp_path)


def comment(number: int, login: str, body: str) -> dict[str, Any]:
    url = f"https://api.github.com/repos/o/r/issues/comments/{number}"
    return {"url": url, "user": {"login": login}, "body": body}


def test_a_first_report_becomes_a_comment_of_the_request_of_the_event(job: GitHubJob) -> None:
    job.report(f"{MARK}\n# What it would do\n".encode())
    code, (_, post) = job.run()
    assert code == 0
    assert post["arguments"] == [
        "api",
        "repos/o/r/issues/7/comments",
        "--field",
        "body=@comment.md",
    ]
    assert post["body"] == f"{MARK}\n# What it would do\n"


def test_a_report_replaces_the_jobs_own_last_comment_and_nobody_elses(job: GitHubJob) -> None:
    job.comments = [
        comment(1, "mallory", f"{MARK}\nmine"),
        comment(2, "github-actions[bot]", f"{MARK}\nold"),
        comment(3, "github-actions[bot]", MARK.replace("production", "staging")),
        comment(4, "mallory", f"{MARK}\nmine, too"),
    ]
    job.report(b"new\n")
    code, (_, patch) = job.run()
    assert code == 0
    assert patch["arguments"][:4] == ["api", "--method", "PATCH", job.comments[1]["url"]]


def test_a_report_cannot_say_that_it_is_another_stacks(job: GitHubJob) -> None:
    """Else it would be found, and replaced, as that one's."""
    job.report(b"<!-- slicewright preview-report staging -->\ntext\n")
    _, calls = job.run()
    assert calls[-1]["body"] == f"{MARK}\ntext\n"


@pytest.mark.parametrize(
    "text", [b"x" * 2_000_000, "é".encode() * 100_000, b"a\x00b\xff\xfec\n", b""]
)
def test_a_report_of_any_size_and_bytes_is_one_comment_that_github_takes(
    job: GitHubJob, text: bytes
) -> None:
    job.report(text)
    code, calls = job.run()
    assert code == 0
    body = calls[-1]["body"]
    assert body.startswith(MARK)
    assert len(body) < 65_536
    assert "\x00" not in body
    assert ("Cut off here: [the whole report](https://" in body) == (len(text) > 60_000)


def test_an_artifact_that_is_anything_but_one_file_is_not_posted(job: GitHubJob) -> None:
    """A link would post what the job can read: its environment has a token."""
    (job.directory / "secret").write_text("secret")
    (job.directory / "report").mkdir()
    (job.directory / "report" / "report.md").symlink_to(job.directory / "secret")
    code, calls = job.run()
    assert (code, calls) == (1, [])


@pytest.mark.parametrize("name", ["other.md", "report.md/x", "a/report.md"])
def test_artifact_with_other_files_is_refused(job: GitHubJob, name: str) -> None:
    if name == "other.md":
        job.report(b"text")
    file = job.directory / "report" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("text")
    assert job.run() == (1, [])


@dataclass
class GitLab:
    url: str
    requests: list[tuple[str, Mapping[str, str], str]] = field(default_factory=list)


@pytest.fixture
def gitlab_server() -> Iterator[GitLab]:
    server_of_gitlab = GitLab("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            server_of_gitlab.requests.append((self.path, dict(self.headers), body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server_of_gitlab.url = f"http://127.0.0.1:{server.server_port}"
    yield server_of_gitlab
    server.shutdown()
    thread.join()
    server.server_close()


def post_a_note(directory: Path, url: str, token: str | None) -> tuple[int, str]:
    """Exit code, and the arguments of every program that the script has started."""
    job = extended(yaml.safe_load(GITLAB.read_text()), "note-production")
    programs = directory / "bin"
    programs.mkdir()
    for name in ("curl", "head", "iconv", "tr", "grep", "wc", "mktemp"):
        script = programs / name
        # As /proc shows them to every process.
        script.write_text(
            f"#!/bin/sh\nprintf '%s\\n' {name} \"$@\" >> '{directory}/arguments'\n"
            f'PATH="$TRUE_PATH" exec {name} "$@"\n'
        )
        script.chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TRUE_PATH": os.environ["PATH"],
        "STACK": "production",
        "CI_API_V4_URL": f"{url}/api/v4",
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "3",
        **({} if token is None else {"NOTES_TOKEN": token}),
    }
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    arguments = directory / "arguments"
    return done.returncode, arguments.read_text() if arguments.exists() else ""


def test_a_note_has_the_report_and_its_token_is_in_no_arguments(
    tmp_path: Path, gitlab_server: GitLab
) -> None:
    (tmp_path / "preview").mkdir()
    text = "<!-- slicewright preview-report staging -->\n# A & B = 100 %\n"
    (tmp_path / "preview" / "report.md").write_text(text)
    code, arguments = post_a_note(tmp_path, gitlab_server.url, TOKEN)
    assert code == 0
    ((path, headers, body),) = gitlab_server.requests
    assert path == "/api/v4/projects/7/merge_requests/3/notes"
    assert headers["PRIVATE-TOKEN"] == TOKEN
    assert parse_qs(body)["body"] == [f"{MARK}\n# A & B = 100 %\n"]
    assert "curl" in arguments
    assert TOKEN not in arguments


def test_without_a_token_there_is_no_note_and_no_failure(
    tmp_path: Path, gitlab_server: GitLab
) -> None:
    assert post_a_note(tmp_path, gitlab_server.url, None)[0] == 0
    assert gitlab_server.requests == []


@pytest.mark.parametrize("link", ["preview", "preview/report.md"])
def test_a_link_in_an_artifact_is_not_followed(
    tmp_path: Path, gitlab_server: GitLab, link: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "report.md").write_text("secret")
    if link == "preview":
        (tmp_path / "preview").symlink_to(tmp_path / "outside")
    else:
        (tmp_path / "preview").mkdir()
        (tmp_path / "preview" / "report.md").symlink_to(tmp_path / "outside" / "report.md")
    assert post_a_note(tmp_path, gitlab_server.url, TOKEN)[0] == 1
    assert gitlab_server.requests == []


def test_a_note_is_of_a_size_that_gitlab_takes(tmp_path: Path, gitlab_server: GitLab) -> None:
    (tmp_path / "preview").mkdir()
    (tmp_path / "preview" / "report.md").write_text("é" * 2_000_000)
    assert post_a_note(tmp_path, gitlab_server.url, TOKEN)[0] == 0
    ((_, _, body),) = gitlab_server.requests
    (note,) = parse_qs(body)["body"]
    assert len(note) < 1_000_000
    assert note.endswith("Cut off here: the artifact has the whole report.\n")
