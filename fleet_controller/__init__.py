"""What is allowed: turns the nodes' reports into conditions, releases proven nodes, and says what
of a pool is proven.
"""
