"""The simulated EC2: networks and launch templates. Instances exist only as a cluster's nodes.

`service` is its API; `resources` is what its operations share.
"""
