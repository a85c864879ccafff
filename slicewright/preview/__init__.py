"""What `pulumi preview --json` says, for the people who decide on a change."""
