"""`python -m slicewright.node_agent`, and the entry of the zipapp."""

import sys

from slicewright.node_agent.cli import main

sys.exit(main())
