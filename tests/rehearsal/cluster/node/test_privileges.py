"""What to allow where simulated nodes cannot be made: exactly what is missing."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.cluster.node.privileges import Privileges, missing

SYSCTL = ("kernel.apparmor_restrict_unprivileged_userns", "1", "0")


@pytest.mark.parametrize(
    ("of", "said", "not_said"),
    [
        (
            Privileges(root=True, sys_admin=True, filtered=True),
            "has CAP_SYS_ADMIN, so a filter of its container refuses",
            "--cap-add",
        ),
        (
            Privileges(root=True, sys_admin=False, filtered=True),
            "is root without CAP_SYS_ADMIN",
            "run it as root",
        ),
        (
            Privileges(root=True, sys_admin=False, filtered=True),
            "are not allowed: start the container with --cap-add SYS_ADMIN --security-opt "
            "seccomp=unconfined",
            "sysctl",
        ),
        (
            Privileges(root=False, sys_admin=False, filtered=False),
            "is not root, and user namespaces are not allowed: run it as root.",
            "sysctl",
        ),
        (
            Privileges(root=False, sys_admin=False, filtered=True),
            "or in a container, start that with --security-opt seccomp=unconfined",
            "--cap-add",
        ),
        (
            Privileges(root=False, sys_admin=False, filtered=False, forbidding=(SYSCTL,)),
            "allow user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1): sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0",
            "container",
        ),
    ],
    ids=str,
)
def test_it_names_what_is_missing_and_nothing_else(
    of: Privileges, said: str, not_said: str
) -> None:
    assert said in missing(of)
    assert not_said not in missing(of)
