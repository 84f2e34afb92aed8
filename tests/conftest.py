"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Two shared cores: no deadline per example. HYPOTHESIS_PROFILE=long for a thorough run.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", deadline=None, max_examples=1000)

# No test may reach AWS, or the metadata service of the machine that it happens to run on.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ.setdefault("HYPERPOD_TOPOLOGY_SOURCES", "resource-config,records")

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
