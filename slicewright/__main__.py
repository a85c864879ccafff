"""`python -m slicewright`: the `slicewright` command."""

import sys

from slicewright.cli import main

sys.exit(main())
