"""`python -m fleet_controller`, and the entry of the zipapp."""

import sys

from fleet_controller.cli import main

sys.exit(main())
