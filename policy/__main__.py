"""The entry point for Pulumi, in the pack's environment: `pulumi preview --policy-pack policy`."""

import sys
from pathlib import Path

# Pulumi puts this directory on the path, but its modules are imported as the package `policy`.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from policy.pack import main  # noqa: E402 - the path has to be set first

main()
