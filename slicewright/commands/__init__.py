"""The subcommands of `slicewright`: each adds its parser, and runs."""
