"""Pure checks: which parts of a plan would be refused?"""
