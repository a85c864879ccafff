"""What Pulumi starts, in the pack's own environment: `pulumi preview --policy-pack policy`."""

import sys
from pathlib import Path

# Pulumi puts this directory on the path, of which the modules are parts of the package `policy`.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from policy.pack import main  # noqa: E402 - the path has to be set first

main()
