"""A rehearsal's `aws`: answers `aws eks get-token --cluster-name NAME` itself.

Other commands go to the user's own `aws`, which the environment's variables lead to the rehearsal.
"""

import os
import sys

from slicewright.rehearsal.clouds.core.exec_credential import (
    NoCredential,
    credential,
    environment,
    run,
)

_OPTIONS = ("--cluster-name", "--region", "--output", "--role-arn", "--profile", "--cluster-id")


def answer() -> str:
    words, options = [], {}
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name.startswith("-"):
            words.append(argument)
        elif name not in _OPTIONS:
            raise NoCredential(f"unknown option {name}; this stand-in knows {', '.join(_OPTIONS)}")
        else:
            options[name] = value if equals else next(arguments, "")
    if words != ["eks", "get-token"]:
        raise NoCredential(
            f"this stand-in knows 'eks get-token' only, not {' '.join(words) or 'nothing'!r}; "
            "for other commands install the AWS CLI"
        )
    if options.get("--output", "json") != "json":
        raise NoCredential("--output: this stand-in writes json only")
    cluster = options.get("--cluster-name")
    if not cluster:
        raise NoCredential("the following arguments are required: --cluster-name")
    return credential(cluster)


def users_own() -> str | None:
    """The next `aws` on PATH; None where there is none."""
    ours = str(environment() / "bin")
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, "aws")  # noqa: PTH118 - in a hurry: kubectl waits
        if directory != ours and os.access(path, os.X_OK):
            return path
    return None


def hand_over() -> None:
    """Becomes the user's `aws` where there is one; returns where there is none."""
    if other := users_own():
        os.execv(other, [other, *sys.argv[1:]])  # noqa: S606 - the command that the user typed


if __name__ == "__main__":
    if "get-token" not in sys.argv and os.environ.get("AWS_ENDPOINT_URL"):
        hand_over()
    if "--version" in sys.argv[1:]:
        print("aws-cli/2.31.0 (rehearsal, simulated)")
        sys.exit(0)
    sys.exit(run("aws (rehearsal)", answer))
