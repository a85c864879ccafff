"""The commands of `slicewright-agent`: each adds its parser, and runs."""
