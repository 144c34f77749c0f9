"""Accelerated classes and functions: each computes the formula of another class, faster.

`accelerate` puts them in place of the formulas, and `plain` runs the formulas again. Nothing below
this folder imports it.
"""
