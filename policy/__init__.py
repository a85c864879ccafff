"""The policy pack: what fleets of partitioned GPUs may be, whoever wrote their program."""
