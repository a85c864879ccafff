"""The language lint: it holds the product's docstrings and names to plain English."""
