"""What a cloud account would refuse of a plan, asked before `pulumi up`; it only reads.

`eks_*` and `gke_*` are pure: plan and answers in, findings out. `aws*` and `google*` ask, and
`reach` connects to a cluster's endpoint. `own_rights`: what asking needs.
"""
