"""`python -m fleet_controller`."""

import sys

from fleet_controller.cli import main

sys.exit(main())
