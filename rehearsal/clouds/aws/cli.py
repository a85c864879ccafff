"""A rehearsal's `aws`: knows `aws eks get-token --cluster-name NAME` and nothing else."""

import sys

from rehearsal.clouds.core.exec_credential import NoCredential, credential, run

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
            f"this stand-in knows 'eks get-token' only, not {' '.join(words) or 'nothing'!r}"
        )
    if options.get("--output", "json") != "json":
        raise NoCredential("--output: this stand-in writes json only")
    cluster = options.get("--cluster-name")
    if not cluster:
        raise NoCredential("the following arguments are required: --cluster-name")
    return credential(cluster)


if __name__ == "__main__":
    if "--version" in sys.argv[1:]:
        print("aws-cli/2.31.0 (rehearsal, simulated)")
        sys.exit(0)
    sys.exit(run("aws (rehearsal)", answer))
