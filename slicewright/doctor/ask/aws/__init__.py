"""Asks an AWS account."""
