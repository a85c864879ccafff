"""Pure checks: which parts of a GKE plan would this Google Cloud project refuse?"""
