"""The instance metadata service, version 2: instance id and zone id. Never a network position (docs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import requests

ENDPOINT = "http://169.254.169.254"
TOKEN_SECONDS = 300
TIMEOUT = (1.0, 2.0)  # connect, read: link-local, answers in milliseconds or not at all
ATTEMPTS = 2  # whoever asks comes back later, so a wait here would only be a second one
MAX_ANSWER = 1024


class Imds(Protocol):
    """Both answer None where the service is switched off, unreachable, or has no such entry; `problem` says why."""

    problem: str

    def instance_id(self) -> str | None: ...
    def zone_id(self) -> str | None: ...


class _Again(Exception):
    """An answer that may be another one a moment later: a token that ran out, a service that is starting."""


class RequestsImds:
    """Honours AWS_EC2_METADATA_SERVICE_ENDPOINT and AWS_EC2_METADATA_DISABLED as AWS's own tools do."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._disabled = environment.get("AWS_EC2_METADATA_DISABLED", "").strip().lower() == "true"
        self._endpoint = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "").strip() or ENDPOINT).rstrip("/")
        self._session: requests.Session | None = None
        self._token: str | None = None
        self.problem = "is switched off by AWS_EC2_METADATA_DISABLED" if self._disabled else ""

    def instance_id(self) -> str | None:
        return self._get("instance-id")

    def zone_id(self) -> str | None:
        return self._get("placement/availability-zone-id")

    def _get(self, entry: str) -> str | None:
        if self._disabled:
            return None
        try:
            import requests
        except ImportError:
            self.problem = "cannot be asked: the Python package requests is not installed"
            return None
        for _ in range(ATTEMPTS):
            try:
                return self._ask(f"/latest/meta-data/{entry}")
            except (requests.RequestException, _Again) as error:
                self._token = None  # it may have run out
                why = str(error) if isinstance(error, _Again) else type(error).__name__
                self.problem = f"does not answer at {self._endpoint} ({why})"
        return None

    def _ask(self, path: str) -> str | None:
        """Raises _Again where a second try may help, and requests' own errors."""
        if self._token is None:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            self._token = self._text("PUT", "/latest/api/token", lifetime)
        if self._token is None:
            return None
        return self._text("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _text(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """The text of an answer; None where there is none. Follows no redirect, goes through no proxy."""
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.trust_env = False
        with self._session.request(
            method, self._endpoint + path, headers=dict(headers), timeout=TIMEOUT, allow_redirects=False, stream=True
        ) as response:
            body: bytes = response.raw.read(MAX_ANSWER + 1, decode_content=True)
        text = body.decode("ascii", "replace").strip()
        if response.status_code == 401 or response.status_code >= 500:
            raise _Again(f"{response.status_code} to {method} {path}")
        if response.status_code != 200 or not text or len(body) > MAX_ANSWER or not text.isprintable():
            self.problem = f"answers {response.status_code} to {method} {path}"
            return None
        return text
