from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.fake_imds import FakeImds, serving
from topology_plugin.adapters.imds import RequestsImds

ID = "i-0a000000000000001"


@pytest.fixture
def service() -> Iterator[FakeImds]:
    with serving(FakeImds({"instance-id": ID, "placement/availability-zone-id": "usw2-az2"})) as fake:
        yield fake


def client(url: str, **environment: str) -> RequestsImds:
    return RequestsImds({"AWS_EC2_METADATA_SERVICE_ENDPOINT": url, **environment})


def test_instance_and_zone_are_asked_with_one_token(service: FakeImds) -> None:
    imds = client(service.url + "/")
    assert (imds.instance_id(), imds.zone_id()) == (ID, "usw2-az2")
    assert service.log == [
        "PUT /latest/api/token 200",
        "GET /latest/meta-data/instance-id 200",
        "GET /latest/meta-data/placement/availability-zone-id 200",
    ]


def test_a_token_that_ran_out_is_renewed(service: FakeImds) -> None:
    imds = client(service.url)
    assert imds.instance_id() == ID
    service.forget_tokens()
    assert imds.zone_id() == "usw2-az2"


def test_one_failure_is_tried_again_and_two_are_an_answer(service: FakeImds) -> None:
    service.failures = [503]
    assert client(service.url).instance_id() == ID
    service.failures = [503, 503]
    imds = client(service.url)
    assert imds.instance_id() is None
    assert "503 to PUT /latest/api/token" in imds.problem


@pytest.mark.parametrize("status", [403, 404, 302])
def test_a_refusal_or_redirect_is_not_tried_again(service: FakeImds, status: int) -> None:
    service.failures = [status, 500, 500]
    imds = client(service.url)
    assert imds.instance_id() is None
    assert imds.problem == f"answers {status} to PUT /latest/api/token"
    assert len(service.log) == 1


def test_an_entry_that_is_not_there_is_none(service: FakeImds) -> None:
    del service.entries["placement/availability-zone-id"]
    assert client(service.url).zone_id() is None


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 5000, "\x1b[31m"])
def test_an_answer_that_is_no_short_text_is_none(service: FakeImds, text: str) -> None:
    service.entries["instance-id"] = text
    assert client(service.url).instance_id() is None


@pytest.mark.parametrize("word", ["true", "TRUE", " True "])
def test_switched_off_it_is_not_asked(service: FakeImds, word: str) -> None:
    imds = client(service.url, AWS_EC2_METADATA_DISABLED=word)
    assert imds.instance_id() is None
    assert imds.problem == "is switched off by AWS_EC2_METADATA_DISABLED"
    assert service.log == []


def test_a_proxy_in_the_environment_is_not_used(service: FakeImds, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert client(service.url).instance_id() == ID


def test_a_service_that_is_not_there_is_a_reason_not_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        imds = client(f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert imds.instance_id() is None
    assert "does not answer" in imds.problem


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://[::1", "http://"])
def test_an_endpoint_that_is_no_url_is_a_reason_not_an_error(url: str) -> None:
    imds = client(url)
    assert imds.instance_id() is None
    assert "does not answer" in imds.problem
