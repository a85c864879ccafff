"""Pure checks: which parts of an EKS plan would this AWS account refuse?"""
