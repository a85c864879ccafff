"""What `pulumi destroy` says of what it does not see.

It runs no program, so nothing here can speak then; but it prints the name of each resource that it
deletes. This resource has no other purpose than its name.
"""

from __future__ import annotations

import pulumi


class DestroyNotice(pulumi.ComponentResource):
    """For stacks that make their cluster: of an existing one nothing but their own is taken."""

    def __init__(self, stack: str) -> None:
        super().__init__(
            "slicewright:index:DestroyNotice",
            # No quotes of any kind: people copy URNs into shells, and reports into Markdown.
            "load balancers, disks and logs of the cluster are not seen by pulumi destroy, but by "
            f"slicewright destroy -s {stack} --dry-run",
        )
        self.register_outputs({})
