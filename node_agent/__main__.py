"""`python -m node_agent`, and the entry of the zipapp."""

import sys

from node_agent.cli import main

sys.exit(main())
