"""Fractional GPUs: engines, requests, and the placement of pods' shares on cards."""
