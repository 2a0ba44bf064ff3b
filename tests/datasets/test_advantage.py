"""Progress and advantage of recorded steps: against the formula by hand, and in the hands of the published lerobot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from robot_stack.cli.main import main
from robot_stack.datasets.advantage import POSITIVE_SHARE, Advantages, measure_advantages
from robot_stack.datasets.lerobot import layout
from robot_stack.datasets.lerobot.rows import rows_of
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import label, made_episode, write_folder

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'robot-stack[export]'")

from robot_stack.datasets.lerobot.export import export_lerobot  # noqa: E402
from robot_stack.datasets.lerobot.ingest import import_lerobot  # noqa: E402

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
WON, LOST, OPEN = "000002-online-a", "000003-online-a", "000004-online-a"
LENGTHS = {"000000-demo-a": 20, "000001-demo-a": 30, WON: 25, LOST: 15, OPEN: 12}
USUAL = 25.0
"""Median of the three successes."""


def curve(name: str) -> np.ndarray:
    """Progress that rises to .9, but of the lost one, which rises to .5 and falls."""
    at = np.linspace(0, 1, LENGTHS[name] + 1)
    return (0.9 * at if name != LOST else 1.0 * np.minimum(at, 1 - at)).astype(np.float32)


@pytest.fixture
def view(tmp_path: Path) -> StoreView:
    online = {"kind": EpisodeKind.ONLINE, "end": EndReason.TIMEOUT, "source": Source.POLICY}
    made = [made_episode(name, steps=steps, **(online if "online" in name else {})) for name, steps in LENGTHS.items()]
    said = [label(WON, Verdict.SUCCESS, LabelSource.MODEL), label(LOST, Verdict.FAILURE)]
    found = write_folder(tmp_path / "five", made, said)
    score(found, "v1", {name: curve(name) for name in LENGTHS})
    return found


def score(view: StoreView, version: str, curves: Mapping[str, np.ndarray]) -> None:
    for name, progress in curves.items():
        scores = EpisodeScores(episode_id=name, version=version, progress=progress, success=progress)
        ScoreFiles(view.root / "scores").append(scores)


def measured(view: StoreView) -> Advantages:
    return measure_advantages(view, view.episodes, None)


def test_an_advantage_is_what_a_second_brought_beyond_a_usual_success(view: StoreView) -> None:
    found = measured(view)
    assert (found.version, dict(found.usual_steps)) == ("v1", {view.task: USUAL})
    for name, worth_at_end in ((WON, 1.0), (LOST, 0.0), (OPEN, 0.9), ("000000-demo-a", 1.0)):
        steps, phi = LENGTHS[name], curve(name).astype(float)
        phi[-1] = worth_at_end
        expected = [phi[min(t + 10, steps)] - phi[t] - (min(t + 10, steps) - t) / USUAL for t in range(steps)]
        np.testing.assert_allclose(found.episodes[name].advantage, expected, atol=1e-6)
        np.testing.assert_array_equal(found.episodes[name].progress, curve(name)[:-1])


def test_a_share_of_the_policys_own_steps_and_all_of_an_operators_count_as_better(view: StoreView) -> None:
    found = measured(view)
    own = np.concatenate([found.episodes[name].positive for name in (WON, LOST, OPEN)])
    assert own.mean() == pytest.approx(POSITIVE_SHARE, abs=0.03)
    assert all(found.episodes[name].positive.all() for name in LENGTHS if "demo" in name)
    assert found.episodes[WON].positive[-5:].all()
    assert not found.episodes[LOST].positive[8:].any()


def test_a_demonstration_that_failed_is_judged_like_the_policys_own_steps(tmp_path: Path) -> None:
    good, bad = "000000-demo-a", "000001-demo-a"
    online = {"kind": EpisodeKind.ONLINE, "end": EndReason.TIMEOUT, "source": Source.POLICY}
    made = [made_episode(good), made_episode(bad), made_episode(WON, **online)]
    view = write_folder(tmp_path / "three", made, [label(bad, Verdict.FAILURE)])
    score(
        view, "v1", {name: np.linspace(0, 0.9 if name != bad else 0.1, 21, dtype=np.float32) for name in view.episodes}
    )
    found = measured(view).episodes
    assert found[good].positive.all()
    assert not found[bad].positive.any()
    alone = measure_advantages(view, [good, bad], None).episodes  # without the policy's own there is no threshold
    assert not alone[bad].positive.any()


def test_a_claim_of_success_that_was_refused_only_cut_the_episode_short(tmp_path: Path) -> None:
    """As the learner has it: what led to the claim is no worse than what the clock cut short."""
    online = {"kind": EpisodeKind.ONLINE, "source": Source.POLICY}
    claimed, timed = (
        made_episode(name, end=end, **online) for name, end in ((WON, EndReason.SUCCESS), (OPEN, EndReason.TIMEOUT))
    )
    refused = [label(WON, Verdict.SUCCESS, LabelSource.MODEL), label(WON, Verdict.FAILURE, at=2.0)]
    view = write_folder(tmp_path / "two", [made_episode("000000-demo-a"), claimed, timed], refused)
    score(view, "v1", {name: np.linspace(0, 0.9, 21, dtype=np.float32) for name in view.episodes})
    found = measured(view).episodes
    np.testing.assert_array_equal(found[WON].advantage, found[OPEN].advantage)
    rows = rows_of(claimed, refused, number=0, first=0, task=0)
    assert [rows[name][-1] for name in (layout.DONE, layout.TRUNCATED, layout.SUCCESS, layout.REWARD)] == [0, 1, 0, 0]


def test_a_frame_without_a_valid_score_has_that_of_the_nearest_one_before_it(view: StoreView) -> None:
    holes = {name: curve(name) for name in LENGTHS}
    holes[WON][:2] = holes[WON][5:8] = np.nan
    score(view, "v2", holes)
    filled = measure_advantages(view, view.episodes, "v2").episodes[WON].progress
    np.testing.assert_array_equal(filled[:2], [holes[WON][2]] * 2)
    np.testing.assert_array_equal(filled[5:8], [holes[WON][4]] * 3)


def test_whose_progress_it_is_must_be_clear(view: StoreView) -> None:
    score(view, "v2", {name: curve(name) for name in list(LENGTHS)[:3]})
    assert (measured(view).version, measured(view).left_out) == ("v1", ())
    some = measure_advantages(view, view.episodes, "v2")
    assert (list(some.episodes), some.left_out) == (list(LENGTHS)[:3], (LOST, OPEN))
    with pytest.raises(StoreError, match=r"'v3' has scored none .* there are: v1 \(5\), v2 \(3\)"):
        measure_advantages(view, view.episodes, "v3")
    score(view, "v2", {name: curve(name) for name in LENGTHS})
    with pytest.raises(StoreError, match=r"2 reward models have scored most of the 5 .* v1 \(5\), v2 \(5\)"):
        measured(view)
    assert measure_advantages(view, view.episodes, "v2").version == "v2"


def test_what_cannot_be_measured_is_refused_by_name(view: StoreView, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"no success of {view.task} is among the episodes"):
        measure_advantages(view, [LOST, OPEN], None)
    nothing = {name: curve(name) for name in LENGTHS} | {OPEN: np.full(13, np.nan, np.float32)}
    score(view, "v2", nothing)
    with pytest.raises(StoreError, match=f"episode {OPEN} has 0 valid scores for 13 frames"):
        measure_advantages(view, view.episodes, "v2")
    score(view, "v4", {name: curve(name) for name in LENGTHS} | {OPEN: curve(WON)})
    with pytest.raises(StoreError, match=f"episode {OPEN} has 26 valid scores for 13 frames"):
        measure_advantages(view, view.episodes, "v4")
    shutil.rmtree(view.root / "scores")
    with pytest.raises(StoreError, match=r"0 reward models have scored most of the 5 .* there are: none"):
        measured(view)


def export(view: StoreView, out: Path) -> Advantages:
    worth = measured(view)
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
    export_lerobot(view, view.episodes, out, codec="h264", on_episode=lambda *_: None, advantages=worth)
    return worth


def test_rows_and_statistics_have_them_and_the_way_back_is_as_before(view: StoreView, tmp_path: Path) -> None:
    worth = export(view, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / layout.place(layout.DATA, 0)).to_pydict()
    for key, name in (("progress", "progress"), ("advantage", "advantage"), ("advantage_positive", "positive")):
        wanted = np.concatenate([getattr(worth.episodes[each], name) for each in view.episodes])
        np.testing.assert_allclose(rows[key], wanted, atol=1e-6)
    info = json.loads((tmp_path / "out" / layout.INFO).read_text())
    assert info["features"]["advantage"] == {"dtype": "float32", "shape": [1], "names": None}
    stats = json.loads((tmp_path / "out" / layout.STATS).read_text())
    assert stats["progress"]["max"][0] == pytest.approx(max(rows["progress"]))
    assert json.loads((tmp_path / "out" / layout.OURS).read_text())["scores"] == "v1"
    import_lerobot(tmp_path / "out", tmp_path / "back", like=None, on_episode=lambda *_: None)
    assert len(list((tmp_path / "back" / "episodes").iterdir())) == 5


def test_an_export_that_was_not_asked_for_them_has_none(view: StoreView, tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
    export_lerobot(view, view.episodes, tmp_path / "out", codec="h264", on_episode=lambda *_: None)
    assert not (tmp_path / "out" / layout.RA_BC).exists()
    assert "advantage" not in json.loads((tmp_path / "out" / layout.INFO).read_text())["features"]


def test_the_command_writes_them_and_says_whose_progress_it_is(
    view: StoreView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
    words = ["data", "export", str(view.root), "--format", "lerobot", "--out", str(tmp_path / "out"), "--advantage"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "progress by v1; " in said
    assert "left out" not in said
    assert (tmp_path / "out" / layout.RA_BC).exists()
    score(view, "v2", {name: curve(name) for name in list(LENGTHS)[:3]})
    words[words.index(str(tmp_path / "out"))] = str(tmp_path / "some")
    assert main([*words, "--scores", "v2"]) == 0
    assert f"left out, since it has not scored them: {LOST}, {OPEN}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "mcap", "--advantage"], "format is 'mcap' with --advantage, must be 'lerobot'"),
        (["--format", "lerobot", "--scores", "v1"], "--scores is 'v1' without --advantage"),
    ],
)
def test_a_question_that_means_nothing_is_refused(
    words: list[str], said: str, view: StoreView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "export", str(view.root), "--out", str(tmp_path / "out"), *words]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set, must name a Python with the lerobot package")
def test_the_published_lerobot_weights_rows_by_them_and_trains_on_the_dataset(view: StoreView, tmp_path: Path) -> None:
    worth = export(view, tmp_path / "out")
    script = Path(__file__).with_name("lerobot_weights.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": ""}
    result = subprocess.run(
        [PYTHON, str(script), str(tmp_path / "out")],
        env=environment, capture_output=True, text=True, timeout=400, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.splitlines()[-1])
    progress = np.concatenate([worth.episodes[name].progress for name in view.episodes])
    np.testing.assert_allclose(found["progress"], progress, atol=1e-6)
    np.testing.assert_allclose(
        found["advantage"], np.concatenate([w.advantage for w in worth.episodes.values()]), atol=1e-6
    )
    first = list(view.episodes).index(LOST)
    start = sum(LENGTHS[name] for name in view.episodes[:first])
    falling = slice(start + 8, start + 14)
    assert max(found["weights"][falling]) == 0.0  # what went back is not imitated
    assert min(found["weights"][:10]) > 0.0
    assert found["trained"]
