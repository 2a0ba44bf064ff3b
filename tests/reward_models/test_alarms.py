"""A model that is fooled or lost is found out by what it says; a good one is left in peace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.alarms import AlarmConfig, EpisodeEvidence, Normal, Watch, nearest_distance, way_of_swings

FRAMES = 40
NORMAL = Normal(spread=0.05, distance=0.3, way=1.0, fastest=30)
CONFIG = AlarmConfig()


def evidence(
    number: int = 0,
    *,
    progress: np.ndarray | None = None,
    spread: float = 0.02,
    distance: float = 0.1,
    claimed_at: int | None = 38,
    refused: bool = False,
    confirmed: bool = False,
    lacking: slice | None = None,
) -> EpisodeEvidence:
    bare = np.zeros(FRAMES, bool)
    bare[lacking or slice(0, 0)] = True
    return EpisodeEvidence(
        name=f"{number:06d}",
        progress=np.linspace(0, 0.9, FRAMES) if progress is None else progress,
        spread=np.full(FRAMES, spread),
        distance=np.full(FRAMES, distance),
        claimed_at=claimed_at,
        refused=refused,
        confirmed=confirmed,
        lacking=bare,
    )


def kinds(episodes: list[EpisodeEvidence], config: AlarmConfig = CONFIG) -> list[str]:
    """Alarms of the last episode, all before it fed first."""
    watch = Watch(config, NORMAL)
    alarms = [watch.add(episode) for episode in episodes]
    return [alarm.kind for alarm in alarms[-1]]


def test_what_the_demonstrations_are_is_normal() -> None:
    rng = np.random.default_rng(0)
    demos = [
        EpisodeEvidence(
            name=str(i), progress=np.linspace(0, 1, 30 + i), spread=rng.random(30 + i), distance=rng.random(30 + i) * 2,
            claimed_at=None, refused=False,
        )
        for i in range(10)
    ]  # fmt: skip
    normal = Normal.of(demos)
    assert normal.fastest == 30
    assert normal.way == 1.0
    assert normal.spread == pytest.approx(0.99, abs=0.02)
    assert normal.distance == pytest.approx(1.98, abs=0.04)


@given(st.integers(1, 60))
def test_a_good_model_is_left_in_peace(episodes: int) -> None:
    assert kinds([evidence(i) for i in range(episodes)]) == []


def test_claims_that_people_refuse_end_trust_at_the_third() -> None:
    watch = Watch(CONFIG, NORMAL)
    said = [watch.add(evidence(i, refused=i % 2 == 0)) for i in range(5)]
    assert [bool(alarms) for alarms in said] == [False, False, False, False, True]
    (alarm,) = said[-1]
    assert alarm.kind == "false_claims"
    assert alarm.episodes == ("000000", "000002", "000004")
    assert "3 of its 5 newest claims" in alarm.words


def test_few_false_claims_among_very_many_are_no_proof() -> None:
    config = CONFIG.model_copy(update={"window": 200})
    assert kinds([evidence(i, refused=i in (0, 50, 119)) for i in range(120)], config) == []


def test_false_claims_of_long_ago_are_forgotten() -> None:
    assert kinds([*(evidence(i, refused=True) for i in range(2)), *(evidence(i) for i in range(2, 40))]) == []


@pytest.mark.parametrize(
    ("kind", "strange"),
    [
        ("disagreement", evidence(spread=0.11)),
        ("unfamiliar", evidence(distance=0.61)),
        ("lacking", evidence(lacking=slice(0, FRAMES // 2))),
    ],
)
def test_three_strange_episodes_of_five_end_trust(kind: str, strange: EpisodeEvidence) -> None:
    usual = evidence()
    assert kinds([strange, usual, strange, usual, usual]) == []
    assert kinds([strange, usual, strange, usual, strange]) == [kind]
    assert kinds([strange, strange, usual, usual, usual, strange]) == []


@pytest.mark.parametrize("lacking", [slice(1, None), slice(0, FRAMES // 2 - 1), slice(FRAMES - 3, None)])
def test_a_part_that_is_lost_on_the_way_or_hidden_for_a_moment_is_no_alarm(lacking: slice) -> None:
    assert kinds([evidence(lacking=lacking)] * 5) == []


def test_an_alarm_says_what_to_look_at() -> None:
    watch = Watch(CONFIG, NORMAL)
    *_, alarms = (watch.add(evidence(number, lacking=slice(0, None))) for number in range(3))
    (alarm,) = alarms
    assert alarm.episodes == ("000000", "000001", "000002")
    assert "in 3 of the newest 5 episodes, from their first frame on" in alarm.words
    assert alarm.words.endswith("are part, light, table and cameras as in the demonstrations?")


def test_a_model_that_does_not_know_what_lacks_raises_no_such_alarm() -> None:
    assert kinds([replace(evidence(number), lacking=None) for number in range(5)]) == []


def test_going_up_and_down_for_the_sake_of_it_ends_trust() -> None:
    farm = evidence(progress=np.tile([0.1, 0.8], FRAMES // 2), claimed_at=None)
    assert kinds([farm]) == []
    assert kinds([farm, evidence(), farm]) == ["cycling"]


@pytest.mark.parametrize(
    "progress",
    [
        np.tile([0.0, 0.02], 150),
        np.linspace(0, 0.2, 150) + 0.01 * np.random.default_rng(0).normal(size=150),
        np.linspace(0, 1, 300) + 0.02 * np.random.default_rng(1).normal(size=300),
        np.r_[np.linspace(0, 0.8, 60), 0.8 + 0.04 * np.sin(np.arange(240) * 2 * np.pi / 8)],
    ],
    ids=["around nothing", "low", "long", "to and fro over the socket"],
)
def test_noise_and_a_search_at_the_goal_are_no_farm_however_long(progress: np.ndarray) -> None:
    assert kinds([evidence(progress=progress, claimed_at=None)] * 5) == []


def test_of_noise_no_swing_is_counted_and_every_swing_counts_its_length() -> None:
    up_and_down = np.r_[np.linspace(0, 0.9, 30), np.linspace(0.9, 0.3, 20), np.linspace(0.3, 0.9, 20)]
    assert way_of_swings(up_and_down) == pytest.approx(2.1 / 0.9)
    jitter = 0.005 * np.random.default_rng(0).normal(size=len(up_and_down))
    assert way_of_swings(up_and_down + jitter) == pytest.approx(2.1 / 0.9, abs=0.1)
    assert way_of_swings(np.full(9, np.nan)) == 0.0


def test_a_task_that_goes_up_and_down_is_no_farm_where_its_demonstrations_do() -> None:
    farm = np.r_[np.tile(np.r_[np.linspace(0.2, 0.8, 8), np.linspace(0.8, 0.2, 8)], 5), np.linspace(0.2, 0.9, 8)]
    shown = evidence(progress=farm, claimed_at=None)
    assert kinds([shown] * 2) == ["cycling"]
    watch = Watch(CONFIG, Normal.of([shown, shown, evidence()]))
    assert [watch.add(shown) for _ in range(5)] == [()] * 5


def test_success_faster_than_anyone_ends_trust() -> None:
    assert kinds([evidence(claimed_at=14), evidence(), evidence(claimed_at=10)]) == ["haste"]
    assert kinds([evidence(claimed_at=15)] * 5) == []


def test_a_policy_that_grows_faster_than_its_teachers_is_left_in_peace() -> None:
    learned = [evidence(claimed_at=frames) for frames in (28, 20, 14, 11, 8, 7, 7, 7)]
    assert [alarm for known in range(1, len(learned) + 1) for alarm in kinds(learned[:known])] == []


def test_what_an_operator_confirms_is_not_too_fast_and_what_he_refuses_makes_nothing_usual() -> None:
    assert kinds([evidence(claimed_at=5, confirmed=True)] * 5) == []
    assert kinds([evidence(claimed_at=5, confirmed=True), evidence(claimed_at=3), evidence(claimed_at=4)]) == []
    quick = [evidence(claimed_at=frames, refused=True) for frames in (20, 11)]
    assert kinds([*quick, evidence(claimed_at=10), evidence(claimed_at=10)]) == ["haste"]


def test_how_fast_a_success_may_be_is_known_again_after_a_restart() -> None:
    normal = NORMAL
    for frames, confirmed in ((20, False), (9, False), (14, False), (2, False), (6, True)):
        normal = normal.with_success(frames, confirmed=confirmed, haste=CONFIG.haste)
    assert normal.fastest == 6
    assert NORMAL.with_success(9, confirmed=False, haste=CONFIG.haste) == NORMAL


def test_frames_without_a_score_are_no_evidence() -> None:
    nan = float("nan")
    blind = evidence(progress=np.full(FRAMES, nan), spread=nan, distance=nan, claimed_at=None)
    assert kinds([blind] * 5) == []


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 5))
def test_distance_is_that_to_the_nearest(count: int, known: int, size: int) -> None:
    rng = np.random.default_rng(count * 100 + known)
    frames, trained = rng.normal(size=(count, size)), rng.normal(size=(known, size))
    slow = [min(np.linalg.norm(f - k) for k in trained) / np.sqrt(size) for f in frames]
    assert nearest_distance(frames, trained) == pytest.approx(slow, abs=1e-6)
