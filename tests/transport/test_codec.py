from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.transport import codec
from robot_stack.transport import learner_pb2 as pb
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeKind, Step
from tests.examples import examples
from tests.transport.fake_learner import SPEC, equal_steps, make_header, make_step

SECONDS, AGES = st.floats(0, 1e10), st.floats(0, 1e9)
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,40}[A-Za-z0-9_-])?", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def unit(data: st.DataObject) -> np.ndarray:
    size = SPEC.action_size
    values = data.draw(st.lists(st.floats(-1, 1, width=32), min_size=size, max_size=size))
    return np.array(values, np.float32)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_a_step_comes_back_bit_for_bit(data: st.DataObject) -> None:
    end = data.draw(st.none() | st.sampled_from(EndReason))
    proprio = data.draw(
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            min_size=SPEC.proprio_size,
            max_size=SPEC.proprio_size,
        )
    )
    row = ActionRow(
        executed=unit(data), proposed=unit(data), human=unit(data), source=data.draw(st.sampled_from(Source)),
        gripper_pressed=data.draw(st.booleans()), clipped=data.draw(st.booleans()),
        params_version=data.draw(st.integers(0, 2**63 - 1)), params_age_s=data.draw(AGES),
    )  # fmt: skip
    fill = data.draw(st.integers(0, 255))
    step = Step(
        episode_id=data.draw(NAMES),
        index=data.draw(st.integers(0, 10_000_000)),
        observation=Observation(
            images={c.name: np.full(c.shape, fill, np.uint8) for c in SPEC.cameras},
            proprio=np.array(proprio, np.float32),
            stamp_ns=data.draw(st.integers(-(2**63), 2**63 - 1)),
            age_s=data.draw(AGES),
            skew_s=data.draw(AGES),
        ),
        action=None if end else row,
        end=end,
    )
    raw = codec.encode_step(step, SPEC).SerializeToString()
    assert equal_steps(codec.decode_step(pb.Step.FromString(raw), SPEC), step)


@given(episode_id=NAMES, kind=st.sampled_from(EpisodeKind), text=TEXTS, at=SECONDS, seed=st.integers(-1, 2**63 - 1))
@settings(max_examples=examples(30), deadline=None)
def test_a_header_comes_back(episode_id: str, kind: EpisodeKind, text: str, at: float, seed: int) -> None:
    header = make_header(episode_id, kind=kind, actor=text, task=text, started_unix_s=at, seed=seed)
    raw = codec.encode_header(header).SerializeToString()
    assert codec.decode_header(pb.EpisodeHeader.FromString(raw)) == header


@given(episode_id=NAMES, verdict=st.sampled_from(Verdict), source=st.sampled_from(LabelSource), at=SECONDS, note=TEXTS)
@settings(max_examples=examples(30), deadline=None)
def test_a_label_comes_back(episode_id: str, verdict: Verdict, source: LabelSource, at: float, note: str) -> None:
    label = Label(episode_id=episode_id, verdict=verdict, source=source, stamp_unix_s=at, note=note)
    assert codec.decode_label(pb.Label.FromString(codec.encode_label(label).SerializeToString())) == label


@given(progress=st.floats(0, 1) | st.just(np.nan), success=st.floats(0, 1) | st.just(np.nan), declared=st.booleans())
@settings(max_examples=examples(30), deadline=None)
def test_a_score_comes_back_with_its_nan(progress: float, success: float, declared: bool) -> None:
    score = LiveScore(episode_id="e", index=4, progress=progress, success=success, declared=declared, version="v")
    back = codec.decode_score(codec.encode_score(score))
    np.testing.assert_array_equal([back.progress, back.success], [progress, success])
    assert replace(back, progress=0.0, success=0.0) == replace(score, progress=0.0, success=0.0)


def damage(message: pb.Step, kind: str) -> None:
    """One wrong thing in an otherwise good message."""
    front = message.observation.images[0]
    nan = np.full(SPEC.proprio_size, np.nan, np.float32)
    match kind:
        case "nan proprio":
            message.observation.proprio = nan.tobytes()
        case "float64 proprio":
            message.observation.proprio = nan.astype(np.float64).tobytes()
        case "ragged proprio":
            message.observation.proprio += b"x"
        case "nan action":
            message.action.executed = np.full(SPEC.action_size, np.nan, np.float32).tobytes()
        case "action out of range":
            message.action.human = np.full(SPEC.action_size, 1.5, np.float32).tobytes()
        case "short action":
            message.action.proposed = message.action.proposed[:-4]
        case "swapped image":
            front.height_px, front.width_px = front.width_px, front.height_px
        case "torn image":
            front.rgb = front.rgb[:-1]
        case "missing camera":
            del message.observation.images[0]
        case "camera for another":
            message.observation.images[1].CopyFrom(front)
        case "camera twice":
            message.observation.images.append(front)
        case "unknown source":
            message.action.source = 9
        case "unknown end":
            message.end = "bored"
        case "end with an action":
            message.end = "success"
        case "path as episode":
            message.episode_id = "../../etc"
        case "negative age":
            message.observation.age_s = -1.0
        case "nan params age":
            message.action.params_age_s = float("nan")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nan proprio", "must be finite"),
        ("float64 proprio", r"proprio is float32 \(16,\), must be float32 \(8,\)"),
        ("ragged proprio", "proprio is 33 bytes, must be a whole number"),
        ("nan action", "executed is .*must be finite"),
        ("action out of range", r"human is .*within \[-1, 1\]"),
        ("short action", r"proposed is float32 \(6,\), must be float32 \(7,\)"),
        ("swapped image", "image front is uint8 .12, 8, 3., must be"),
        ("torn image", "image front is 287 bytes, must be 288"),
        ("missing camera", "cameras are"),
        ("camera twice", "number of images is 3, must be at most the 2 cameras"),
        ("camera for another", "must be unique"),
        ("unknown source", "source is 9, must be one of"),
        ("unknown end", "end is 'bored', must be one of"),
        ("end with an action", "must have an action and no end"),
        ("path as episode", "episode id is '../../etc'"),
        ("negative age", "age_s is -1.0"),
        ("nan params age", "params_age_s is nan"),
    ],
)
def test_a_wrong_step_is_refused_with_its_value(kind: str, words: str) -> None:
    message = codec.encode_step(make_step("e", 0), SPEC)
    codec.decode_step(message, SPEC)
    damage(message, kind)
    with pytest.raises(SpecError, match=words):
        codec.decode_step(message, SPEC)


def test_a_wrong_dtype_is_refused_before_it_is_sent() -> None:
    step = make_step("e", 0)
    wrong = replace(step, observation=replace(step.observation, proprio=step.observation.proprio.astype(np.float64)))
    with pytest.raises(SpecError, match="proprio is float64"):
        codec.encode_step(wrong, SPEC)


def test_a_step_larger_than_a_message_is_refused_before_it_is_sent() -> None:
    huge = Spec(
        arms=(ArmSpec(name="arm", translation_m=0.02, rotation_rad=0.1),),
        cameras=tuple(CameraSpec(name=f"c{i}", height_px=1024, width_px=1024) for i in range(22)),
        proprio=(ProprioField(name="tcp", size=1),),
        rate_hz=10.0,
    )
    image = np.zeros((1024, 1024, 3), np.uint8)
    observation = Observation(images={c.name: image for c in huge.cameras}, proprio=np.zeros(1, np.float32), stamp_ns=0)
    step = Step(episode_id="e", index=0, observation=observation, action=None, end=EndReason.TIMEOUT)
    with pytest.raises(SpecError, match="must be below 67108864; use fewer or smaller cameras"):
        codec.encode_step(step, huge)


def test_an_encoded_step_keeps_nothing_of_the_callers_buffers() -> None:
    step = make_step("e", 0)
    message = codec.encode_step(step, SPEC)
    before = message.SerializeToString()
    step.observation.images["front"][:] = 0
    step.observation.proprio[:] = 0
    assert message.SerializeToString() == before


@pytest.mark.parametrize("value", [1.2, -0.1, float("inf")])
def test_a_score_outside_0_to_1_is_refused(value: float) -> None:
    with pytest.raises(SpecError, match="progress is"):
        codec.decode_score(pb.LiveScore(episode_id="e", progress=value))


def test_an_unknown_verdict_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(SpecError, match=r"verdict is 'maybe', must be one of \['success', 'failure', 'discard'\]"):
        codec.decode_label(pb.Label(episode_id="e", verdict="maybe", source="model"))


TWO_ARMS = replace(SPEC, arms=(replace(SPEC.arms[0], name="left"), replace(SPEC.arms[0], name="right")))


def two_arm_step(*sources: int) -> Step:
    step = make_step("e", 0)
    zeros = np.zeros(TWO_ARMS.action_size, np.float32)
    row = ActionRow(executed=zeros, proposed=zeros, human=zeros, source=Source.HUMAN, sources=sources)  # type: ignore[arg-type]
    return replace(step, action=row, end=None)


def test_who_moved_each_of_several_arms_comes_back() -> None:
    raw = codec.encode_step(two_arm_step(Source.HUMAN, Source.HOLD), TWO_ARMS).SerializeToString()
    back = codec.decode_step(pb.Step.FromString(raw), TWO_ARMS)
    assert back.action is not None
    assert back.action.sources == (Source.HUMAN, Source.HOLD)


@pytest.mark.parametrize("sources", [(), (1,), (1, 2, 1)])
def test_a_step_that_does_not_say_who_moved_each_arm_is_refused(sources: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match=f"sources are {len(sources)}, must be 2"):
        codec.encode_step(two_arm_step(*sources), TWO_ARMS)


def test_a_source_that_there_is_not_is_refused() -> None:
    message = codec.encode_step(two_arm_step(Source.HUMAN, Source.HOLD), TWO_ARMS)
    message.action.sources = bytes([1, 9])
    with pytest.raises(SpecError, match="source is 9, must be one of"):
        codec.decode_step(message, TWO_ARMS)
