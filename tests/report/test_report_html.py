from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from robot_stack.report.html import write_report
from robot_stack.report.run_folder import read_run
from robot_stack.report.thumbnails import SIDE_PX, strip
from robot_stack.types.transition import EpisodeKind


class Page(HTMLParser):
    """Tags and their attributes, text, and what is left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page_of(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


@pytest.fixture
def text(reported_run: Path) -> str:
    return (reported_run / "report.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing_from_elsewhere(text: str) -> None:
    page = Page(text)
    assert page.open == []
    addresses = [value for _, attributes in page.tags for key, value in attributes.items() if key in ("src", "href")]
    assert len(addresses) >= 6
    assert all(
        address is not None and address.startswith(("data:image/png;base64,", "data:image/svg+xml;base64,"))
        for address in addresses
    )
    assert not {"link", "iframe"} & {tag for tag, _ in page.tags}
    assert not re.search(r"url\(|@import", text)


def test_the_page_names_figures_targets_and_how_to_go_on(text: str) -> None:
    words = Page(text).words
    wanted = (
        "97 of 100 (92 to 99 %)",
        "below 70 %",
        "robot-stack sim --name peg --task peg_insert --seed 0",
        "robot-stack eval peg",
    )
    assert [each for each in wanted if each not in words] == []


def test_only_what_was_learned_stands_before_the_table(own_run: Path) -> None:
    (own_run / "eval_bc.json").unlink()
    (own_run / "eval_policy.json").unlink()
    words = page_of(own_run).words
    before = words[: words.index("All figures")]
    assert "Success and interventions" in before
    assert "Progress Φ along an episode" not in before


def test_a_target_that_is_not_met_is_said_so(own_run: Path, text: str) -> None:
    before = Page(text).words.count("✗ not met")
    (own_run / "memory.json").write_text('{"peak_mb": 7000}')
    assert page_of(own_run).words.count("✗ not met") == before + 1


def test_failures_come_before_successes(text: str) -> None:
    words = Page(text).words
    table = words[words.index("Training episodes, failures first") :]
    outcomes = re.findall(r"no success|success, missed|(?<!no )success(?=timeout|success)", table)
    failed = [outcome == "no success" for outcome in outcomes]
    assert any(failed)
    assert not all(failed)
    assert failed == sorted(failed, reverse=True)


def test_what_became_of_the_reward_model_is_told_in_its_order(own_run: Path) -> None:
    log = own_run / "metrics.jsonl"
    rows = [
        {"kind": "alarm", "version": "0123", "alarm": "haste", "words": "<it> was in a hurry"},
        {"kind": "refit_failed", "reason": "was ended by signal 9"},
        {"kind": "checkpoint_failed", "reason": "disk is full"},
    ]
    with log.open("a") as file:
        file.writelines(json.dumps({"t": 2e9, **row}) + "\n" for row in rows)
    text = page_of(own_run).words
    told = text[text.index("What became of the reward model") : text.index("Safety and faults")]
    first, last = "0fitted on", "30fitted on"
    words = [
        told.index(part) for part in (first, last, "30no longer trusted (haste, 0123): <it> was", "30not fitted again")
    ]
    assert words == sorted(words)
    assert "checkpoint not written: disk is full" in text[text.index("Safety and faults") :]


def test_text_from_the_run_cannot_become_markup(own_run: Path, text: str) -> None:
    before = [tag for tag, _ in Page(text).tags].count("script")
    with (own_run / "a0.jsonl").open("a") as file:
        file.write(json.dumps({"t": 1.0, "kind": "fault", "reason": "<script>alert(1)</script>"}) + "\n")
    page = page_of(own_run)
    assert "<script>alert(1)</script>" in page.words
    assert [tag for tag, _ in page.tags].count("script") == before


def test_an_empty_folder_still_gets_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    words = page_of(tmp_path).words
    assert "memory_mb: memory.json" in words
    assert "No training episode has ended yet." in words
    assert "0 of 14 targets met, 14 not known" in words


def test_a_strip_shows_first_frames_then_last_frames(finished_run: Path) -> None:
    record = read_run(finished_run)
    name = record.episodes(EpisodeKind.ONLINE)[0].episode_id
    stored = record.stored(name)
    assert stored is not None
    ends = record.first_and_last(name)
    assert ends is not None
    shown = strip(*ends)
    assert shown.dtype == np.uint8
    assert shown.shape[0] <= SIDE_PX
    first, last = (
        stored.arrays[f"image_{camera.name}"] for camera in (stored.spec.cameras[0], stored.spec.cameras[-1])
    )
    np.testing.assert_array_equal(shown[0, 0], first[0, 0, 0])
    np.testing.assert_array_equal(shown[0, -1], last[-1, 0, -1])
    assert record.first_and_last("never_recorded") is None
