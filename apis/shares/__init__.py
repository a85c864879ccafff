"""Shares of GPUs: the engines' names, and the notes that they write on Nodes and Pods."""
