"""The policy pack: rules for fleets of partitioned GPUs, written by slicewright or not."""
