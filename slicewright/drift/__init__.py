"""Finds deviations from the declaration: between program, state, cloud, silicon and GPU
operator.
"""
