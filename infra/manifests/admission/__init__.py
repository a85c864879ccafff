"""Admission policies that protect nodes before they are verified."""
