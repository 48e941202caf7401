"""What holds for all tests: properties are tried on the same examples each time, and none is judged by a clock."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
