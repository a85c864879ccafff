"""Answers about a first fleet become the files of a Pulumi project."""
