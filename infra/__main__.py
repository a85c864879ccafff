"""The program of this project's own stacks."""

from slicewright.infra.entry import main

main()
