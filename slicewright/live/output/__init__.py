"""Writes a fleet for people and for programs."""
