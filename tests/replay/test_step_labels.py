"""What an operator has shown of an action, and what only happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_stack.replay.columns import check_step
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.frames import FrameTable
from robot_stack.replay.replay import Replay
from robot_stack.replay.step_labels import StepLabels
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeKind, Step
from tests.replay.recorded import header_of, small_spec, steps_of
from tests.replay.synthetic_episodes import two_handed_spec

P, H, N, IDLE = Source.POLICY, Source.HUMAN, Source.HOLD, Source.IDLE
TWO = two_handed_spec()
"""left (x, discrete gripper), middle (x, continuous gripper), right (x, discrete gripper)."""


def row(source: Source, *sources: Source, pressed: tuple[int, ...] = ()) -> ActionRow:
    """A step of three arms; `pressed` are entries of grippers whose key was pressed."""
    human = np.zeros(6, np.float32)
    human[list(pressed)] = -1.0
    return ActionRow(
        executed=np.zeros(6, np.float32), proposed=np.zeros(6, np.float32), human=human, source=source,
        sources=sources, gripper_pressed=bool(pressed),
    )  # fmt: skip


def step(action: ActionRow | None, index: int = 0, spec: Spec = TWO) -> Step:
    images = {camera.name: np.zeros(camera.shape, np.uint8) for camera in spec.cameras}
    seen = Observation(images=images, proprio=np.zeros(spec.proprio_size, np.float32), stamp_ns=1 + index)
    return Step(episode_id="e", index=index, observation=seen, action=action, end=None if action else EndReason.TIMEOUT)


def label_of(action: ActionRow, *, demo: bool = False) -> list[int]:
    """Of a step long after the handover."""
    table = FrameTable(TWO, handover_s=0.0)
    added = table.add(step(action), demo=demo)
    return table.column("label")[added].astype(int).tolist()


@pytest.mark.parametrize(
    ("sources", "motion"),
    [
        ([P, P, H, H, H, H, P], [1, 1, 0, 0, 1, 1, 1]),
        ([H, H, H, P, H, H, H], [0, 0, 1, 1, 0, 0, 1]),
        ([H, H, IDLE, IDLE, H, H], [0, 0, 0, 0, 1, 1]),  # the same hand, which has rested
        ([P, N, H, H, H], [1, 0, 0, 0, 1]),
    ],
)
def test_the_motion_that_a_handover_blends_is_no_label(sources: list[Source], motion: list[int], tmp_path) -> None:
    spec = small_spec()
    live, restored, shown = Replay(spec), Replay(spec), Replay(spec)
    live.begin(header_of("e"))
    shown.begin(header_of("e", EpisodeKind.DEMO))
    with EpisodeStore(tmp_path, spec, "insert") as store:
        store.begin(header_of("e"))
        for each in steps_of(spec, "e", sources, pressed=[True] * len(sources)):
            live.add_step(each)
            shown.add_step(each)
            store.append(each)
        restored.add_episode(store.read("e"))
    for replay in (live, restored):
        found = replay.frames.column("label")[: len(sources)].astype(int)
        assert found[:, 0].tolist() == found[:, 5].tolist() == motion
        pressed = [source is not N for source in sources]  # a press is the operator's, blended or not
        assert found[:, 6].astype(bool).tolist() == pressed
    still = np.isin(sources, (IDLE, N))
    assert (shown.frames.column("label")[: len(sources), 0] == ~still).all()


@pytest.mark.parametrize(("handover_s", "blended"), [(0.0, 0), (0.05, 1), (0.1, 1), (0.2, 2), (0.25, 3)])
def test_a_handover_lasts_as_long_as_the_cell_says(handover_s: float, blended: int) -> None:
    spec = small_spec()
    labels = StepLabels(spec, handover_s=handover_s).of(
        {"source": np.full(6, H, np.uint8), "gripper_pressed": np.ones(6, np.bool_)}, demo=False
    )
    assert labels[:, 0].tolist() == [False] * blended + [True] * (6 - blended)


def test_each_of_several_arms_has_a_handover_of_its_own() -> None:
    table = FrameTable(TWO)
    for index, action in enumerate(
        [row(H, H, N, N), row(H, H, N, N), row(H, H, N, H), row(H, H, N, H), row(H, H, N, H)]
    ):
        table.add(step(action, index))
    assert table.column("label")[:, 0].tolist() == [False, False, True, True, True]
    assert table.column("label")[:, 4].tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (row(P, P, P, P), [1, 1, 1, 1, 1, 1]),
        (row(IDLE, IDLE, N, N), [0, 1, 0, 0, 0, 0]),
        (row(H, H, N, N), [1, 0, 0, 0, 0, 0]),
        (row(H, N, H, N), [0, 0, 1, 1, 0, 0]),
        (row(H, H, N, H, pressed=(5,)), [1, 0, 0, 0, 1, 1]),
        (row(H, H, H, H, pressed=(1, 5)), [1, 1, 1, 1, 1, 1]),
        (row(H, H, N, N, pressed=(5,)), [1, 0, 0, 0, 0, 0]),  # a press that reached no arm
    ],
)
def test_of_a_correction_an_arm_out_of_hand_and_a_gripper_nobody_touched_are_no_label(
    action: ActionRow, label: list[int]
) -> None:
    assert label_of(action) == label


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (row(H, H, H, H), [1, 1, 1, 1, 1, 1]),
        (row(H, H, N, N), [1, 1, 0, 0, 0, 0]),
        (row(H, H, H, H, pressed=(5,)), [1, 1, 1, 1, 1, 1]),
    ],
)
def test_of_a_demonstration_a_gripper_nobody_touched_is_the_label_to_stay(action: ActionRow, label: list[int]) -> None:
    assert label_of(action, demo=True) == label


@pytest.mark.parametrize(("kind", "stays"), [(EpisodeKind.DEMO, True), (EpisodeKind.ONLINE, False)])
def test_the_kind_of_an_episode_decides_live_and_from_disk(kind: EpisodeKind, stays: bool, tmp_path) -> None:
    live, restored = Replay(TWO), Replay(TWO)
    with EpisodeStore(tmp_path, TWO, "insert") as store:
        store.begin(header_of("e", kind))
        live.begin(header_of("e", kind))
        for each in (step(row(H, H, H, H)), step(None, 1)):
            store.append(each)
            live.add_step(each)
        restored.add_episode(store.read("e"))
    for replay in (live, restored):
        assert replay.frames.column("label")[0, 1] == stays


def test_the_last_frame_has_no_action_to_label() -> None:
    table = FrameTable(TWO)
    table.add(step(row(H, H, N, N)))
    table.add(step(None, 1))
    assert table.column("label")[1].all()


def test_an_episode_added_whole_has_the_labels_of_its_steps(tmp_path) -> None:
    actions = [row(P, P, P, P), row(H, H, N, N), row(H, H, N, H, pressed=(5,))]
    steps = [*(step(action, index) for index, action in enumerate(actions)), step(None, 3)]
    one_by_one, whole = FrameTable(TWO), FrameTable(TWO)
    with EpisodeStore(tmp_path, TWO, "insert") as store:
        store.begin(header_of("e"))
        for each in steps:
            store.append(each)
            one_by_one.add(each)
        episode = store.read("e")
    whole.add_episode("e", episode.arrays)
    np.testing.assert_array_equal(whole.column("label"), one_by_one.column("label"))
    assert [each.action.sources for each in episode.steps() if each.action] == [a.sources for a in actions]


def test_a_store_of_one_arm_has_no_column_more_than_before() -> None:
    one, several = StepLabels(small_spec()), StepLabels(TWO)
    arrays = {"source": np.array([P, H, H], np.uint8), "gripper_pressed": np.array([False, False, True])}
    assert one.of(arrays, demo=False)[:, -1].tolist() == [True, False, True]
    with pytest.raises(KeyError):
        several.of(arrays, demo=False)


@pytest.mark.parametrize(
    ("action", "spec", "message"),
    [
        (row(P), TWO, "sources are 0, must be 3, one for each of several arms"),
        (row(P, P, P), TWO, "sources are 2, must be 3"),
        (replace(row(P, P, P, P), sources=(P, P, 7)), TWO, "source is 7, must be one of"),
    ],
)
def test_a_step_that_does_not_say_who_moved_each_arm_is_refused(action: ActionRow, spec: Spec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        check_step(step(action), spec)


def test_a_step_of_one_arm_says_it_once() -> None:
    spec = small_spec()
    zeros = np.zeros(spec.action_size, np.float32)
    action = ActionRow(executed=zeros, proposed=zeros, human=zeros, source=P, sources=(P,))
    with pytest.raises(SpecError, match="sources are 1, must be 0"):
        check_step(step(action, spec=spec), spec)
