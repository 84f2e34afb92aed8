"""AWS services that answer from a function, behind boto3's real clients: botocore checks parameters and answers against
the real service models, and raises its real errors. No network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import boto3.session
import botocore.awsrequest
from botocore.config import Config
from botocore.validate import validate_parameters

from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls


class Failure(Exception):
    """An error answer, in the service's own words."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(code)
        self.answer = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class Service:
    """`answer`: (operation as the service names it, parameters) → answer; raises Failure. `asked`: parameters of every
    call, in order. One at a time for each name."""

    def __init__(self, name: str, answer: Callable[[str, Mapping[str, Any]], dict[str, Any]]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.client = _client(name)
        _ANSWERING[name] = self

    def calls(self, clock: FakeClock, seconds: float = 60) -> Calls:
        return Calls(lambda: self.client, clock, seconds, jitter=lambda: 0.5)

    def reply(self, model: Any) -> tuple[Any, dict[str, Any]]:
        try:
            found = self.answer(model.name, self.asked[-1])
            validate_parameters(found, model.output_shape)
            found = {**found, "ResponseMetadata": {"HTTPStatusCode": 200}}
        except Failure as failure:
            found = failure.answer
        status = found["ResponseMetadata"]["HTTPStatusCode"]
        return botocore.awsrequest.AWSResponse("", status, {}, None), found


_ANSWERING: dict[str, Service] = {}


@cache
def _client(name: str) -> Any:
    """One for all tests of a process: reading a service model takes longer than the tests."""
    session = boto3.session.Session(aws_access_key_id="none", aws_secret_access_key="none")
    client = session.client(name, region_name="us-west-2", config=Config(retries={"total_max_attempts": 1}))

    def note(params: Mapping[str, Any], **_: Any) -> None:
        _ANSWERING[name].asked.append(dict(params))

    def reply(model: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
        return _ANSWERING[name].reply(model)

    client.meta.events.register_first("before-parameter-build.*.*", note)
    client.meta.events.register_first("before-call.*.*", reply)
    return client
