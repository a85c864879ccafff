"""Turns the output of `pulumi preview --json` into a report for the people who decide on a
change.
"""
