"""Shared by the tests of the operator's console."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.console.page_rig import FakeCell, served, sim_run
from tests.console.slow_disk import StuckDisk


@pytest.fixture(scope="session")
def run():
    """The dry run."""
    return sim_run()


@pytest.fixture
def cell(run, tmp_path) -> FakeCell:
    """A desk that is told what the test says."""
    return FakeCell(run, tmp_path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> StuckDisk:
    """Lines of the journals are written once the test lets them."""
    stuck = StuckDisk()
    monkeypatch.setattr("robot_stack.console.journal.append_row", stuck.append)
    return stuck


@pytest.fixture
def url(cell: FakeCell) -> Iterator[str]:
    """The address of the cell's page."""
    with served(cell) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A real browser without a window."""
    from tests.chromium import CHROMIUM, QUIET
    from tests.console.browser_rig import sync_api

    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser) -> Iterator[Callable[..., object]]:
    """tab(url, **options) -> an open page; what it complains of fails the test."""
    from tests.console.browser_rig import WAIT_MS, WIDE

    contexts, complaints = [], []

    def open_tab(url: str, *, context: object = None, **options: object) -> object:
        if context is None:
            context = browser.new_context(**{"viewport": WIDE, **options})
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
        page.goto(url)
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert not complaints
