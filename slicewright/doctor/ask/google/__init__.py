"""Asks a Google Cloud project."""
