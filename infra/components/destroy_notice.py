"""Lets `pulumi destroy` print a notice of the resources that it does not see.

That command does not run the program, but it prints the name of each resource that it deletes.
This resource has no other purpose than its name.
"""

from __future__ import annotations

import pulumi


class DestroyNotice(pulumi.ComponentResource):
    """The notice of stacks that create their cluster. An existing one loses only stack objects."""

    def __init__(self, stack: str) -> None:
        super().__init__(
            "slicewright:index:DestroyNotice",
            # No quotes of any kind: people copy URNs into shells, and reports into Markdown.
            "load balancers, disks and logs of the cluster are not seen by pulumi destroy, but by "
            f"slicewright destroy -s {stack} --dry-run",
        )
        self.register_outputs({})
