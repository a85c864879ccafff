"""Turns the output of `pulumi preview --json` into a report for people who decide on a change."""
