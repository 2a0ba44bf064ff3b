from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.console.episodes import EpisodeRow as PageRow
from robot_stack.report.html import render_report
from robot_stack.report.run_folder import episode_names, episode_numbers, read_run
from robot_stack.report.summary import write_summary
from robot_stack.report.thumbnails import SIDE_PX, strip
from robot_stack.report.write import write_report
from robot_stack.rollout.evaluate import Evaluation
from robot_stack.rollout.judged import Judgement
from robot_stack.runs.beginning import Beginning
from robot_stack.runs.paths import RunPaths
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


def without_plots(folder: Path) -> str:
    """The report without its plots, whose drawing takes nearly all of the time."""
    record = read_run(folder)
    return render_report(record, write_summary(record), list)


def page_of(folder: Path) -> Page:
    return Page(without_plots(folder))


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
        "peg --episodes 100",
    )
    assert [each for each in wanted if each not in words] == []
    assert "go on where" not in words, "nobody wrote how this run was begun"


def test_a_run_goes_on_as_it_was_begun(own_run: Path) -> None:
    again = "robot-stack up peg_insert --folder runs/mine --root own --set seed=3"
    Beginning(command=again).write(own_run)
    assert again in page_of(own_run).words
    (own_run / "beginning.json").write_text('{"command": 3')
    assert "go on where" not in page_of(own_run).words


def test_a_run_of_a_real_arm_goes_on_with_the_robot(own_run: Path) -> None:
    RunPaths(own_run).resolved.write_text(load_run("ur5e_table").to_yaml())
    words = page_of(own_run).words
    assert "robot-stack deploy" in words
    assert "robot-stack eval" not in words


def test_a_quick_run_is_not_judged_by_what_it_had_no_time_for(own_run: Path) -> None:
    assert "at least 95 %" in page_of(own_run).words
    Beginning(command="make sim QUICK=1", quick=True).write(own_run)
    words = page_of(own_run).words
    assert "too short to learn" in words
    for target in ("at least 95 %", "below 70 %", "above 15 %", "below 3 %", "at most 45 min"):
        assert target not in words
    for target in ("below 20 ms", "at most 15 min", "below 6 GB"):
        assert target in words


def test_an_episode_has_the_number_of_the_operators_page(own_run: Path) -> None:
    online = read_run(own_run).episodes(EpisodeKind.ONLINE)
    pages = {row.episode_id: PageRow(episode_id=row.episode_id, kind="online").number for row in online}
    text = without_plots(own_run)
    assert all(f"<span title='{name}'>{number}</span>" in text for name, number in pages.items())


def test_episodes_of_several_actors_have_the_number_of_their_own_page_and_a_place_of_their_own() -> None:
    both = ["000004-online-a", "000004-online-b-2", "000005-online-a"]
    assert episode_names(both) == ["4 (a)", "4 (b-2)", "5 (a)"]
    assert episode_names(["000004-online-a", "000005-online-a"]) == ["4", "5"]
    assert list(episode_numbers(both)) == [1, 2, 3]


def test_only_what_was_learned_stands_before_the_table(own_run: Path) -> None:
    (own_run / "eval_bc.json").unlink()
    (own_run / "eval_policy.json").unlink()
    words = Page(write_report(own_run).read_text(encoding="utf-8")).words
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
        {"kind": "refit_failed", "reason": "was ended by signal 9", "of": "image encoder"},
        *2 * [{"kind": "fit", "online_episodes": 25}],  # the second is of a restart
        {"kind": "checkpoint_failed", "reason": "disk is full"},
        {"kind": "reward_fit", "version": "4567", "classifier": {"threshold": 0.9, "reached": False}},
    ]
    with log.open("a") as file:
        file.writelines(json.dumps({"t": 2e9, **row}) + "\n" for row in rows)
    text = page_of(own_run).words
    told = text[text.index("What became of the reward model") : text.index("Safety and faults")]
    first, last = "0fitted on", "30fitted on"
    words = [
        told.index(part)
        for part in (first, last, "30no longer trusted (haste, 0123): <it> was", "30reward model not fitted again")
    ]
    assert words == sorted(words)
    assert told.count("its success classifier has not the wanted precision: it refuses nothing") == 1
    assert "checkpoint not written: disk is full" in text[text.index("Safety and faults") :]


def test_what_a_deployment_came_to_is_told(own_run: Path) -> None:
    assert "deployed" not in without_plots(own_run)
    deployed = RunPaths(RunPaths(own_run).deployed)
    deployed.folder.mkdir()
    result = Evaluation(
        successes=[True, True, False, True],
        durations_s=[4.0, 5.0, 12.0, 6.0],
        ages_s=[],
        judged=[
            Judgement(declared=declared, done_at=None, false=None, delay_s=None)
            for declared in (True, True, False, False)
        ],
        helped=[False, False, False, True],
        discarded=2,
    )
    deployed.summary.write_text(json.dumps(result.summary()))
    words = page_of(own_run).words
    assert "When it was deployed" in words
    assert "by itself2 of 3 (21 to 94 %)4.5 s" in words
    assert "with an operator's help1 of 1 (21 to 100 %)6.0 s" in words
    assert "Discarded: 2. The success model said 2 times that the task was done." in words


@pytest.mark.parametrize("spoilt", ["{", '{"episodes": 1, "success": 1, "wilson95": [0.2, 1.0], "alone": 3}'])
def test_a_deployment_that_cannot_be_read_is_named(own_run: Path, spoilt: str) -> None:
    deployed = RunPaths(RunPaths(own_run).deployed)
    deployed.folder.mkdir()
    deployed.summary.write_text(spoilt)
    words = page_of(own_run).words
    assert "deployed/summary.json is unreadable" in words
    assert "run robot-stack deploy again" in words


def test_text_from_the_run_cannot_become_markup(own_run: Path, text: str) -> None:
    before = [tag for tag, _ in Page(text).tags].count("script")
    with (own_run / "a0.jsonl").open("a") as file:
        file.write(json.dumps({"t": 1.0, "kind": "fault", "reason": "<script>alert(1)</script>"}) + "\n")
    page = Page(write_report(own_run).read_text(encoding="utf-8"))
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
