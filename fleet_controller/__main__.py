"""`python -m slicewright.fleet_controller`."""

import sys

from slicewright.fleet_controller.cli import main

sys.exit(main())
