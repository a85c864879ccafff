"""What an account or a cluster would refuse of a plan, asked before `pulumi up`; it only reads.

`eks_*`, `gke_*`, `cluster_checks`, `driver_image_checks` and `image_checks` are pure: plan and
answers in, findings out. `aws*`, `google*` and `cluster` ask, `registry` asks for the tags and the
platforms of an image, and `reach` connects to a cluster's endpoint. `own_rights`: what asking
needs.
"""
