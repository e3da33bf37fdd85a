"""Hypothesis runs the same examples everywhere: a red build can be repeated."""

from hypothesis import settings

settings.register_profile("repeatable", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("repeatable")
