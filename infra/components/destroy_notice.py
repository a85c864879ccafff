"""A notice in the output of `pulumi destroy`: the resources that it does not see.

`pulumi destroy` does not run the program, but it prints the name of each resource that it deletes.
The name of this resource is the notice, and its only purpose.
"""

from __future__ import annotations

import pulumi


class DestroyNotice(pulumi.ComponentResource):
    """The notice, for stacks that create their cluster."""

    def __init__(self, stack: str) -> None:
        super().__init__(
            "slicewright:index:DestroyNotice",
            # No quotes of any kind: people copy URNs into shells, and reports into Markdown.
            "load balancers, disks and logs of the cluster are not seen by pulumi destroy, but by "
            f"slicewright destroy -s {stack} --dry-run",
        )
        self.register_outputs({})
