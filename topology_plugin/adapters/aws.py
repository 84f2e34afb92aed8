"""Calls to an AWS API within a time budget: throttling waited out, everything else told apart by what can be done."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from topology_plugin.adapters.clock import Clock

# The services' own words for "not so fast", and for faults on their side.
THROTTLED = frozenset(
    {"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"}
    | {
        "RequestThrottledException",
        "TooManyRequestsException",
        "SlowDown",
        "PriorRequestNotComplete",
        "BandwidthLimitExceeded",
    }
)
TRANSIENT = frozenset({"InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable"})
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 20.0
UNREACHABLE_ATTEMPTS = 2  # a node without a way to the API waits its connect timeout each time
TIMEOUTS = {"connect_timeout": 3, "read_timeout": 10}


class Refused(Exception):
    """The service will not answer this, now or later: `code` is its own word for why (or that of the library)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message


class OutOfTime(Exception):
    """The budget is used up, mostly by throttling; what was not answered may be asked for in a later pass."""


class Calls:
    """Calls of one service. `client` makes boto3's client, only when the first call needs it. `seconds`: the budget of
    one round of calls, which `begin` starts. `jitter`: a number in [0, 1)."""

    def __init__(
        self, client: Callable[[], Any], clock: Clock, seconds: float, jitter: Callable[[], float] = random.random
    ) -> None:
        self._make = client
        self._client: Any = None
        self._clock = clock
        self._seconds = seconds
        self._jitter = jitter
        self._until = 0.0

    def begin(self) -> None:
        self._until = self._clock.monotonic() + self._seconds

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer. `operation` as boto3 names the method. Raises Refused and OutOfTime."""
        pause, unreachable = FIRST_PAUSE, 0
        while True:
            if self._clock.monotonic() >= self._until:
                raise OutOfTime(f"no answer within {self._seconds:g} s")
            try:
                if self._client is None:
                    self._client = self._make()
                answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
                return answer
            except ImportError as error:
                raise Refused("boto3", f"the Python package {error.name or 'boto3'} is not installed") from None
            except Exception as error:
                code, message, again = _told(error)
                if again == "later" and unreachable + 1 < UNREACHABLE_ATTEMPTS:
                    unreachable += 1
                elif again != "throttled":
                    raise Refused(code, message) from None
            # Full pauses at once would meet again; at least half, so that a throttled account does cool down.
            wait = pause * (0.5 + 0.5 * self._jitter())
            if self._clock.monotonic() + wait >= self._until:
                raise OutOfTime(f"{code} for {self._seconds:g} s") from None
            self._clock.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)


def _told(error: Exception) -> tuple[str, str, str]:
    """(code, message, what helps: "throttled" waiting, "later" one more try, "" nothing). Others' faults are raised."""
    import botocore.exceptions

    if isinstance(error, botocore.exceptions.ClientError):
        told = error.response.get("Error", {})
        code, message = str(told.get("Code") or "Unknown"), str(told.get("Message") or "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in THROTTLED or code in TRANSIENT or status in (429, 500, 502, 503, 504):
            return code, message, "throttled"
        return code, message, ""
    if isinstance(error, botocore.exceptions.ConnectionError | botocore.exceptions.HTTPClientError):
        return type(error).__name__, str(error), "later"
    if isinstance(error, botocore.exceptions.BotoCoreError):
        return type(error).__name__, str(error), ""
    raise error


def region_of(cluster_arn: str | None) -> str | None:
    """The region in an ARN; None: boto3's own default."""
    found = re.match(r"arn:[^:]+:sagemaker:([a-z0-9-]+):", cluster_arn or "")
    return found[1] if found else None


def boto3_client(service: str, region: str | None) -> Callable[[], Any]:
    """Makes a client whose retries are ours: botocore's own would not know the budget."""

    def make() -> Any:
        import boto3.session
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, **TIMEOUTS)
        return boto3.session.Session().client(service, region_name=region, config=config)

    return make
