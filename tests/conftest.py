"""Hypothesis profiles: `ci` repeats itself, `dev` searches anew each time, `thorough` for long."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True)
settings.register_profile("thorough", parent=settings.get_profile("dev"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
