"""One browser for all tests of the page, and the page of a small cluster in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.states import live
from tests.views.browser import Browser, Page, found
from tests.views.paging import NOTES, small, written


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Skipped where no Chromium is found; with REQUIRE_CHROMIUM=1 that is a failure."""
    if found() is None:
        reason = "no Chromium: the page is NOT tested in a browser (apt-get install chromium, or set CHROMIUM)"
        if os.environ.get("REQUIRE_CHROMIUM") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with Browser.start() as started:
        yield started


@pytest.fixture(scope="package")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def opened(browser: Browser, directory: Path) -> Iterator[Page]:
    of = small()
    path = written(directory, of, live(of), generations=NOTES, pending=("a change",), origin="a test")
    page_ = browser.open(path)
    yield page_
    page_.close()
