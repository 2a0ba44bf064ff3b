"""The operator's page in a real browser: the stage key, and progress with the stages that were marked."""

from __future__ import annotations

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.types.command import Mode
from tests.console.browser_rig import lively, look, needs_chromium, picture, says, sync_api, until
from tests.console.page_rig import FakeCell, served

pytestmark = [needs_chromium, pytest.mark.long]


def test_the_next_stage_is_marked_by_its_key_or_button_and_shown_beside_progress(tmp_path, tab) -> None:
    cell = FakeCell(load_run("drawer"), tmp_path)
    with served(cell) as url:
        page = tab(url)
        lively(cell)
        look(cell, 90)
        cell.mode(Mode.POLICY)
        name = cell.episode(3)
        says(page, "#stage", "stage 1 of 3: open")
        for frame in range(60):
            cell.score(name, frame, frame / 90)
        page.keyboard.press("g")
        until(lambda: "stage" in cell.done.pressed, "the key at the cell", page)
        cell.events("stage")
        says(page, "#stage", "stage 2 of 3: fill")
        sync_api.expect(page.locator("#keys [data-what=stage]")).to_contain_text("next stage", timeout=15_000)
        picture(page, "page-stages")
