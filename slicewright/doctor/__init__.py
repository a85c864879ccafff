"""Checks before `pulumi up` which parts of a plan an account or a cluster would refuse. It only
reads.

`eks_*`, `gke_*`, `cluster_checks`, `driver_image_checks` and `image_checks` are pure: plan and
answers in, findings out. `aws*`, `google*` and `cluster` ask the servers. `registry` asks for the
tags and the platforms of an image, and `reach` connects to a cluster's endpoint. `read_rights`
lists the rights that the questions need.
"""
