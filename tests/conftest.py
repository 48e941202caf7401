"""What holds for all tests: properties are tried on the same examples each time, and none is judged by a clock.

`make fast` tries a few examples of each property, `make slow` many.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=300)
settings.load_profile("fast")
