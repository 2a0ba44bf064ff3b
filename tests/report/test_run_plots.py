from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from matplotlib.image import imread

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.report.comparison import Compared, _lines
from robot_stack.report.episode_table import episode_table, episodes_to_watch
from robot_stack.report.plots.learning import draw_learning, rolling_rate, rolling_share
from robot_stack.report.plots.progress import chosen_episodes, human_spans
from robot_stack.report.plots.reward import audit_counts, draw_reward
from robot_stack.report.plots.run import PLOTS, draw_plots
from robot_stack.report.run_folder import RunRecord, read_run
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import Source
from robot_stack.types.transition import EpisodeKind

TOLD_OF = ("critic", "learner", "learning", "progress")
SVG_TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_rolling_rate_looks_back_over_its_window_only() -> None:
    outcomes = np.array([1, 1, 0, 0, 0, 1], dtype=bool)
    rate, low, high = rolling_rate(outcomes, window=3)
    np.testing.assert_allclose(rate, [1, 1, 2 / 3, 1 / 3, 0, 1 / 3])
    assert (low[3], high[3]) == wilson_interval(1, 3)
    assert (low[0], high[0]) == wilson_interval(1, 1)


def test_the_rolling_share_weighs_episodes_by_their_steps() -> None:
    share = rolling_share(np.array([5.0, 0.0, 0.0]), np.array([10.0, 90.0, 0.0]), window=2)
    np.testing.assert_allclose(share, [0.5, 0.05, 0.0])


def test_human_spans_hold_idle_steps_and_reach_both_ends() -> None:
    source = [Source.HUMAN, Source.IDLE, Source.POLICY, Source.HOLD, Source.HUMAN]
    assert human_spans(np.array(source)) == [(0, 2), (4, 5)]
    assert human_spans(np.array([Source.POLICY])) == []


def _episode(
    name: str, *, truth: bool | None, human_steps: int = 0, success: bool = False, declared: bool = False
) -> EpisodeRow:
    return EpisodeRow(
        episode_id=name,
        episode_kind=EpisodeKind.ONLINE,
        steps=5,
        duration_s=0.5,
        human_steps=human_steps,
        success=success,
        truth=truth,
        declared=declared,
    )


def test_the_episodes_shown_are_the_first_helped_and_the_last_alone() -> None:
    online = [
        _episode(str(i), human_steps=human, success=success, truth=success)
        for i, (human, success) in enumerate([(3, False), (3, True), (0, True), (2, True), (0, True), (0, False)])
    ]
    chosen = [row.episode_id for _, row in chosen_episodes(online, {str(i) for i in range(6)})]
    assert chosen == ["1", "4"]
    assert [row.episode_id for _, row in chosen_episodes(online, {"0", "5"})] == ["0", "5"]
    assert chosen_episodes(online, set()) == []


def test_the_audit_counts_truth_by_the_models_verdict() -> None:
    said = [(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)] + [(None, True)] * 9
    counts = audit_counts([_episode("e", truth=truth, declared=declared) for truth, declared in said])
    np.testing.assert_array_equal(counts, [[4, 3], [2, 1]])


def _record(folder: Path, *rows: EpisodeRow) -> RunRecord:
    """A run without a file but these rows, a minute each."""
    return replace(read_run(folder), rows=[replace(row, duration_s=60.0) for row in rows])


def _told(record: RunRecord, path: Path) -> tuple[list[str], list[str]]:
    """The places along the plot of learning, and what its first curve is at each."""
    assert draw_learning(record, path)
    told = json.loads(path.with_suffix(".json").read_text())[0]
    assert told["curves"][0]["name"] == "success without an operator"
    return told["where"], [words.split(" (")[0] for words in told["curves"][0]["values"]]


def test_a_discarded_episode_is_in_no_curve_takes_robot_time_and_is_last_in_the_table(tmp_path: Path) -> None:
    won, lost = _episode("000000-online-a", truth=True), _episode("000002-online-a", truth=False)
    thrown = replace(_episode("000001-online-a", truth=False, declared=True), discarded=True)
    record = _record(tmp_path, won, thrown, lost)
    places, values = _told(record, tmp_path / "learning.png")
    assert places == ["episode 0, 1.0 min of robot time", "episode 2, 3.0 min of robot time"]
    assert values == ["100 %", "50 %"]
    assert re.findall("discarded|no success|missed", episode_table(record)) == ["no success", "missed", "discarded"]
    assert [row.episode_id for _, row in episodes_to_watch(record)] == [lost.episode_id, won.episode_id]
    success, _ = _lines(Compared(name="a", record=record, summary={}, lines=[]))
    assert [list(each) for each in success[:2]] == [[1.0, 3.0], [100.0, 50.0]]
    assert not draw_learning(_record(tmp_path, thrown), tmp_path / "none.png")
    assert not draw_reward(_record(tmp_path, thrown), tmp_path / "none.png")


def test_model_that_may_not_judge_has_missed_nothing(tmp_path: Path) -> None:
    won, lost = _episode("000000-online-a", truth=True), _episode("000001-online-a", truth=False)
    record = replace(_record(tmp_path, won, lost), resolved=load_run("mountain_car"))
    assert re.findall("no success|success|missed", episode_table(record)) == ["no success", "success"]
    assert [words for words, _ in episodes_to_watch(record)] == ["Episode 1: no success", "Episode 0: success"]
    assert not draw_reward(record, tmp_path / "none.png")


def test_what_the_base_led_is_no_success_of_the_policy_alone(tmp_path: Path) -> None:
    led, alone = (_episode(f"00000{n}-online-a", truth=True) for n in range(2))
    record = _record(tmp_path, replace(led, base_steps=3), alone)
    assert _told(record, tmp_path / "learning.png")[1] == ["0 %", "50 %"]


def test_a_finished_run_gets_every_plot_with_something_on_it(reported_run: Path) -> None:
    names = sorted(name for name, *_ in PLOTS)
    assert sorted(path.name for path in (reported_run / "plots").iterdir()) == sorted(
        [name + suffix for name in names for suffix in (".png", ".svg", ".pdf")] + [f"{name}.json" for name in TOLD_OF]
    )
    for name in names:
        path = reported_run / "plots" / f"{name}.png"
        image = imread(path)
        assert image.shape[1] > 900
        assert image[..., :3].std() > 0.02
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_the_words_of_an_svg_can_be_edited(reported_run: Path) -> None:
    words = [element.text for element in ElementTree.parse(reported_run / "plots" / "learning.svg").iter(SVG_TEXT)]
    assert "Success over the last 20 episodes" in words
    assert "success without an operator" in words


def test_a_plot_without_input_is_left_out_and_an_old_one_is_removed(reported_run: Path, tmp_path: Path) -> None:
    own_run = Path(shutil.copytree(reported_run, tmp_path / "peg"))
    (own_run / "a0.jsonl").unlink()
    shutil.rmtree(own_run / "store" / "scores")
    names = draw_plots(read_run(own_run))
    assert names == ["learning", "bc_vs_rl", "reward", "critic", "learner"]
    assert {path.stem for path in (own_run / "plots").iterdir()} == set(names)


def test_an_empty_folder_gets_no_plots(tmp_path: Path) -> None:
    assert draw_plots(read_run(tmp_path)) == []
