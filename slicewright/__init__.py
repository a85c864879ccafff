"""The `slicewright` command: everything that plain `pulumi` does not offer."""
