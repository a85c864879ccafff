"""What a cloud account would refuse of a plan, asked before `pulumi up`; it only reads.

`eks_checks` and `gke_checks` are pure: plan and answers in, findings out. `aws` and `google` ask.
"""
