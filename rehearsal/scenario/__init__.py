"""What a user runs and watches: rehearsals of a stack, their environments, and what they prove."""
