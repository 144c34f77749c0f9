"""Whole jobs: train, translate, evaluate. Joins the stages; the command line and people's own
programs call it."""
