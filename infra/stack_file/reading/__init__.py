"""Reads the text of a stack file: a fleet, or every problem in the file at once."""
