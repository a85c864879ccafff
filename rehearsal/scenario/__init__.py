"""What a person runs and watches: rehearsals of a stack, their environment, and the facts they
prove.
"""
