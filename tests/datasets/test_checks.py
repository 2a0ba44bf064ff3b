"""Each check finds what was planted, names episode and frames, and is silent about good episodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.datasets import frame_checks
from robot_stack.datasets.check import Report, check, check_episode
from robot_stack.datasets.findings import LIMITS, stretches
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.finding import Level
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import STEP_M, changed, label, made_episode, made_spec, write_folder

Spoil = Callable[[StoredEpisode], StoredEpisode]


def edited(name: str, edit: Callable[[np.ndarray], None]) -> Spoil:
    def spoil(episode: StoredEpisode) -> StoredEpisode:
        values = episode.arrays[name].copy()
        edit(values)
        return changed(episode, **{name: values})

    return spoil


def assign(where: object, value: object) -> Callable[[np.ndarray], None]:
    def edit(values: np.ndarray) -> None:
        values[where] = value  # type: ignore[index]

    return edit


def shift(first: int, by: int) -> Callable[[np.ndarray], None]:
    def edit(values: np.ndarray) -> None:
        values[first:] += by

    return edit


def repeat(first: int, last: int) -> Callable[[np.ndarray], None]:
    def edit(values: np.ndarray) -> None:
        values[first : last + 1] = values[first]

    return edit


def darken(values: np.ndarray) -> None:
    values[3:] %= 3


PLANTED: dict[str, tuple[Spoil, str, str]] = {
    "a gap in the stamps": (
        edited("stamp_ns", shift(8, 300_000_000)),
        "dropped",
        r"episode e, frames 7 to 8: 0\.40 s lie between them, must be 0\.10 s; frames were dropped",
    ),
    "a clock that jumps back": (
        edited("stamp_ns", shift(8, -150_000_000)), "dropped", r"frames 7 to 8: -0\.050 s .* the clock stood or jumped",
    ),
    "an old image": (
        edited("age_s", assign(slice(4, 7), 0.31)), "late", r"frames 4 to 6: the oldest part is 0\.31 s old, .* 0\.2 s",
    ),
    "parts of different times": (
        edited("skew_s", assign(5, 0.14)), "late", r"episode e, frame 5: its parts are 0\.14 s apart",
    ),
    "a camera that stands still": (
        edited("image_wrist", repeat(6, 14)), "frozen", r"frames 6 to 14: camera wrist repeats one image while the arm",
    ),
    "a lens cap": (
        edited("image_front", darken), "blank", r"frames 3 to 20: mean pixel of camera front is [01]\.\d, must be 4",
    ),
    "an overexposed image": (
        edited("image_front", assign(20, 255)), "blank", r"frame 20: mean pixel of camera front is 255\.0",
    ),
    "an action out of its range": (
        edited("executed", assign((3, 2), 1.1)), "out-of-range", r"frame 3: executed has an entry 1\.1",
    ),
    "an action that is none": (
        edited("human", assign((3, 2), np.nan)), "out-of-range", r"frame 3: human has an entry nan",
    ),
    "proprio that is none": (
        edited("proprio", assign((9, 6), np.inf)), "out-of-range", r"frame 9: proprio has an entry inf",
    ),
    "an age below zero": (
        edited("age_s", assign(2, -0.5)), "out-of-range", r"frame 2: age_s has an entry -0\.5",
    ),
    "a pose that jumps": (
        edited("proprio", assign((slice(10, None), 0), 0.5)), "out-of-range", r"frames 9 to 10: the TCP moves 0\.\d+ m",
    ),
    "a hand that jerks": (
        edited("executed", assign((9, 1), -1.0)), "jerky", r"frames 8 to \d+: the operator's action leaps by 1\.\d+",
    ),
    "nobody at work": (
        edited("source", assign(slice(3, None), Source.IDLE)), "idle", r"episode e: nobody moved the arm in 85%",
    ),
}  # fmt: skip


def test_good_episode_is_good() -> None:
    assert not check_episode(made_episode("e"))


@pytest.mark.parametrize("what", PLANTED)
def test_planted_fault_is_found_in_one_sentence(what: str) -> None:
    spoil, rule, sentence = PLANTED[what]
    found = check_episode(spoil(made_episode("e")))
    assert {finding.check for finding in found} == {rule}
    assert re.search(sentence, found[0].sentence), found[0].sentence


def test_short_episode_is_named() -> None:
    assert [finding.sentence for finding in check_episode(made_episode("e", steps=4))] == [
        "episode e: it has 4 steps, must have 5 or more"
    ]


def test_image_that_repeats_while_nothing_moves_is_no_fault() -> None:
    episode = changed(
        edited("image_front", repeat(0, 20))(made_episode("e")),
        proprio=np.zeros((21, 7), np.float32),
    )
    assert not check_episode(episode)


def test_policy_that_explores_is_not_jerky() -> None:
    spoil, *_ = PLANTED["a hand that jerks"]
    assert not check_episode(spoil(made_episode("e", source=Source.POLICY, kind=EpisodeKind.ONLINE)))


def test_motion_is_measured_where_a_pose_is_recorded_and_else_as_commanded() -> None:
    spec = made_spec()
    executed = np.zeros((2, spec.action_size), np.float32)
    executed[0, 1] = -0.5
    proprio = np.zeros((3, spec.proprio_size), np.float32)
    proprio[2, :3] = [0, 3 * STEP_M, 4 * STEP_M]
    np.testing.assert_allclose(frame_checks.travel(proprio, executed, spec), [0, 5], rtol=1e-6)
    blind = made_spec()
    blind = type(blind)(arms=blind.arms, cameras=blind.cameras, proprio=blind.proprio[1:], rate_hz=10.0)
    np.testing.assert_allclose(frame_checks.travel(proprio[:, 6:], executed, blind), [0.5, 0])


@given(st.lists(st.booleans(), max_size=40))
def test_stretches_cover_exactly_what_is_true(mask: list[bool]) -> None:
    array = np.array(mask, np.bool_)
    again = np.zeros(len(array), np.bool_)
    found = stretches(array)
    for first, last in found:
        assert first <= last
        again[first : last + 1] = True
    np.testing.assert_array_equal(again, array)
    assert all(one[1] + 1 < two[0] for one, two in itertools.pairwise(found))


def test_roughness_does_not_depend_on_speed_or_length() -> None:
    wave = np.sin(np.linspace(0, 40, 400))[:, None]
    assert frame_checks.roughness(wave) == pytest.approx(frame_checks.roughness(0.1 * wave))
    assert frame_checks.roughness(wave) == pytest.approx(frame_checks.roughness(wave[:200]), rel=0.05)
    assert frame_checks.roughness(np.ones((9, 2))) == 0
    flips = np.array([1.0, -1.0] * 50)[:, None]
    assert frame_checks.roughness(flips) == pytest.approx(4.0)
    assert np.isnan(frame_checks.roughness(np.zeros((9, 2))))


def test_rough_one_stands_out_among_alike() -> None:
    values = {f"e{i}": 0.2 + 0.01 * i for i in range(8)}
    assert frame_checks.outliers(values, LIMITS) == {}
    found = frame_checks.outliers({**values, "rough": 1.0}, LIMITS)
    assert set(found) == {"rough"}
    assert frame_checks.outliers({"a": 0.1, "b": 9.0}, LIMITS) == {}


def said(report: Report) -> list[str]:
    return [finding.sentence for finding in report.findings]


def test_good_folder_has_no_findings_and_a_quality_per_demonstration(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode(f"{i}") for i in range(4)])
    report = check(view)
    assert said(report) == []
    assert report.episodes == 4
    assert set(report.quality) == {"0", "1", "2", "3"}


def test_flipped_bit_is_found_and_named(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e"), made_episode("f")])
    chunk = next((view.path("e") / "image_front").glob("c.*"))
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    (finding,) = check(view).findings
    assert (finding.check, finding.level) == ("broken", Level.FAIL)
    assert "episode e: it cannot be used: checksum of e.zarr/image_front" in finding.sentence


def test_second_copy_of_a_recording_is_found(tmp_path: Path) -> None:
    one = made_episode("e")
    two = changed(made_episode("f"), executed=one.arrays["executed"], stamp_ns=one.arrays["stamp_ns"])
    view = write_folder(tmp_path / "a", [one, two])
    assert said(check(view)) == ["episode f: it holds the motions of e, must be recorded once"]


def test_rough_demonstration_is_named(tmp_path: Path) -> None:
    rough = made_episode("rough", steps=40)
    executed = rough.arrays["executed"].copy()
    executed[::2] *= -0.3
    episodes = [made_episode(f"{i}", steps=40) for i in range(6)] + [changed(rough, executed=executed)]
    found = [finding for finding in check(write_folder(tmp_path / "a", episodes)).findings if finding.check == "jerky"]
    assert [finding.episode_id for finding in found] == ["rough"]
    assert "must be at most 3.5" in found[0].sentence


CONTRADICTIONS = {
    "the simulator says otherwise": (
        [label("e", Verdict.SUCCESS, LabelSource.MODEL), label("e", Verdict.FAILURE, LabelSource.TRUTH)],
        EpisodeKind.ONLINE, None, "counts as success by the model, but the simulator says failure",
    ),
    "an operator changed their mind": (
        [label("e", Verdict.SUCCESS, at=1), label("e", Verdict.FAILURE, at=2)],
        EpisodeKind.ONLINE, None, "the operator said failure and success; the newest verdict counts, failure",
    ),
    "the reward model does not see the success": (
        [label("e", Verdict.SUCCESS)], EpisodeKind.ONLINE, 0.03,
        "counts as success by the operator, but the reward model gives its end 0.03",
    ),
    "the reward model sees a success": (
        [label("e", Verdict.FAILURE)], EpisodeKind.ONLINE, 0.97,
        "counts as failure by the operator, but the reward model gives its end 0.97",
    ),
    "a demonstration that failed": (
        [label("e", Verdict.FAILURE)], EpisodeKind.DEMO, None, "a demonstration that counts as failure",
    ),
    "an evaluation with a helping hand": (
        [], EpisodeKind.EVAL, None, "an evaluation of which an operator did 100%",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradiction_is_named(what: str, tmp_path: Path) -> None:
    labels, kind, score, sentence = CONTRADICTIONS[what]
    episode = made_episode("e", kind=kind, end=EndReason.TIMEOUT)
    view = write_folder(tmp_path / "a", [episode], labels)
    if score is not None:
        row = np.full(episode.length + 1, score, np.float32)
        ScoreFiles(view.root / "scores").append(EpisodeScores(episode_id="e", version="v", progress=row, success=row))
    found = said(check(view))
    assert len(found) == 1
    assert sentence in found[0]


def test_discarded_episode_contradicts_nobody(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e", end=EndReason.TIMEOUT)], [label("e", Verdict.DISCARD)])
    assert said(check(view)) == []


def test_demonstration_by_nobody_is_named(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e", source=Source.POLICY)])
    assert said(check(view)) == ["episode e: it is a demonstration of which an operator did 0%, must be most of it"]
