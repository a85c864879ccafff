"""The `slicewright` command: what plain `pulumi` has not."""
