"""Steps, headers, labels, scores and status <-> protobuf. Both directions check against the Spec and raise SpecError.

Arrays of a decoded step are read-only views of the message.
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from enum import StrEnum
from typing import TypeVar

import numpy as np

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.roster import ActorStatus
from robot_stack.transport.wire import MAX_MESSAGE_BYTES
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.names import check_name
from robot_stack.types.observation import Observation
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, ResetType, Step

Word = TypeVar("Word", bound=StrEnum)


def encode_step(step: Step, spec: Spec) -> pb.Step:
    """Copies every array, so the caller may reuse its buffers."""
    _check_step(step, spec)
    observation, action = step.observation, step.action
    message = pb.Step(
        episode_id=step.episode_id,
        index=step.index,
        observation=pb.Observation(
            images=[_image(camera.name, observation.images[camera.name]) for camera in spec.cameras],
            proprio=_to_bytes(observation.proprio),
            stamp_ns=observation.stamp_ns,
            age_s=observation.age_s,
            skew_s=observation.skew_s,
        ),
        action=_encode_action(action) if action is not None else None,
        end=step.end.value if step.end is not None else "",
    )
    if message.ByteSize() > MAX_MESSAGE_BYTES - 1024:
        raise SpecError(
            f"step {step.episode_id}/{step.index} is {message.ByteSize()} bytes, must be below {MAX_MESSAGE_BYTES}; "
            "use fewer or smaller cameras"
        )
    return message


def decode_step(message: pb.Step, spec: Spec) -> Step:
    """Inverse of `encode_step`."""
    observation = message.observation
    images = {image.camera: _pixels(image) for image in observation.images}
    if len(images) != len(observation.images):
        raise SpecError(f"cameras are {[i.camera for i in observation.images]}, must be unique")
    step = Step(
        episode_id=message.episode_id,
        index=message.index,
        observation=Observation(
            images=images,
            proprio=_floats(observation.proprio, "proprio"),
            stamp_ns=observation.stamp_ns,
            age_s=observation.age_s,
            skew_s=observation.skew_s,
        ),
        action=_decode_action(message.action) if message.HasField("action") else None,
        end=_word(EndReason, message.end, "end") if message.end else None,
    )
    _check_step(step, spec)
    return step


def encode_header(header: EpisodeHeader) -> pb.EpisodeHeader:
    """The header of an episode."""
    _check_header(header)
    return pb.EpisodeHeader(
        episode_id=header.episode_id,
        kind=header.kind.value,
        task=header.task,
        actor=header.actor,
        started_unix_s=header.started_unix_s,
        seed=header.seed,
        level=header.level,
        reset=header.reset.value,
    )


def decode_header(message: pb.EpisodeHeader) -> EpisodeHeader:
    """Inverse of `encode_header`."""
    header = EpisodeHeader(
        episode_id=message.episode_id,
        kind=_word(EpisodeKind, message.kind, "kind"),
        task=message.task,
        actor=message.actor,
        started_unix_s=message.started_unix_s,
        seed=message.seed,
        level=message.level,
        reset=_word(ResetType, message.reset, "reset"),
    )
    _check_header(header)
    return header


def encode_label(label: Label) -> pb.Label:
    """A verdict."""
    _check_label(label)
    return pb.Label(
        episode_id=label.episode_id,
        verdict=label.verdict.value,
        source=label.source.value,
        stamp_unix_s=label.stamp_unix_s,
        note=label.note,
    )


def decode_label(message: pb.Label) -> Label:
    """Inverse of `encode_label`."""
    label = Label(
        episode_id=message.episode_id,
        verdict=_word(Verdict, message.verdict, "verdict"),
        source=_word(LabelSource, message.source, "source of the label"),
        stamp_unix_s=message.stamp_unix_s,
        note=message.note,
    )
    _check_label(label)
    return label


def encode_score(score: LiveScore) -> pb.LiveScore:
    """A live score."""
    _check_score(score)
    return pb.LiveScore(
        episode_id=score.episode_id,
        index=score.index,
        progress=score.progress,
        success=score.success,
        declared=score.declared,
        version=score.version,
    )


def decode_score(message: pb.LiveScore) -> LiveScore:
    """Inverse of `encode_score`."""
    score = LiveScore(
        episode_id=message.episode_id,
        index=message.index,
        progress=message.progress,
        success=message.success,
        declared=message.declared,
        version=message.version,
    )
    _check_score(score)
    return score


def encode_status(status: LearnerStatus) -> pb.StatusReply:
    """What the learner does."""
    actors = [pb.ActorStatus(**asdict(actor)) for actor in status.actors]
    return pb.StatusReply(phase=status.phase, message=status.message, counters=dict(status.counters), actors=actors)


def decode_status(reply: pb.StatusReply) -> LearnerStatus:
    """Inverse of `encode_status`."""
    names = [field.name for field in fields(ActorStatus)]
    actors = tuple(ActorStatus(**{name: getattr(actor, name) for name in names}) for actor in reply.actors)
    return LearnerStatus(phase=reply.phase, message=reply.message, counters=dict(reply.counters), actors=actors)


def _encode_action(row: ActionRow) -> pb.ActionRow:
    return pb.ActionRow(
        executed=_to_bytes(row.executed),
        proposed=_to_bytes(row.proposed),
        human=_to_bytes(row.human),
        source=int(row.source),
        sources=bytes(row.sources),
        gripper_pressed=row.gripper_pressed,
        clipped=row.clipped,
        params_version=row.params_version,
        params_age_s=row.params_age_s,
    )


def _decode_action(message: pb.ActionRow) -> ActionRow:
    for source in (message.source, *message.sources):
        if source not in list(Source):
            raise SpecError(f"source is {source}, must be one of {[f'{s.value} {s.name}' for s in Source]}")
    return ActionRow(
        executed=_floats(message.executed, "executed"),
        proposed=_floats(message.proposed, "proposed"),
        human=_floats(message.human, "human"),
        source=Source(message.source),
        sources=tuple(Source(source) for source in message.sources),
        gripper_pressed=message.gripper_pressed,
        clipped=message.clipped,
        params_version=message.params_version,
        params_age_s=message.params_age_s,
    )


def _check_step(step: Step, spec: Spec) -> None:
    check_name(step.episode_id, "episode id")
    if step.index < 0:
        raise SpecError(f"index is {step.index}, must be 0 or more")
    spec.check_images(dict(step.observation.images))
    spec.check_proprio(step.observation.proprio)
    _check_duration(step.observation.age_s, "age_s")
    _check_duration(step.observation.skew_s, "skew_s")
    if step.action is None:
        return
    for name in ("executed", "proposed", "human"):
        spec.check_action(getattr(step.action, name), name)
    spec.check_sources(step.action.sources)
    _check_duration(step.action.params_age_s, "params_age_s")


def _check_header(header: EpisodeHeader) -> None:
    check_name(header.episode_id, "episode id")
    _check_duration(header.started_unix_s, "started_unix_s")


def _check_label(label: Label) -> None:
    check_name(label.episode_id, "episode id")
    _check_duration(label.stamp_unix_s, "stamp_unix_s")


def _check_score(score: LiveScore) -> None:
    check_name(score.episode_id, "episode id")
    for name, value in (("progress", score.progress), ("success", score.success)):
        if not (math.isnan(value) or 0.0 <= value <= 1.0):
            raise SpecError(f"{name} is {value}, must be within [0, 1] or NaN")


def _check_duration(value_s: float, name: str) -> None:
    if not (math.isfinite(value_s) and value_s >= 0.0):
        raise SpecError(f"{name} is {value_s}, must be finite and 0 or more")


def _word(kind: type[Word], text: str, name: str) -> Word:
    try:
        return kind(text)
    except ValueError:
        raise SpecError(f"{name} is {text!r}, must be one of {[w.value for w in kind]}") from None


def _image(camera: str, pixels: np.ndarray) -> pb.Image:
    return pb.Image(camera=camera, height_px=pixels.shape[0], width_px=pixels.shape[1], rgb=pixels.tobytes())


def _pixels(image: pb.Image) -> np.ndarray:
    shape = (image.height_px, image.width_px, 3)
    if len(image.rgb) != math.prod(shape):
        raise SpecError(f"image {image.camera} is {len(image.rgb)} bytes, must be {math.prod(shape)} for {shape}")
    return np.frombuffer(image.rgb, np.uint8).reshape(shape)


def _to_bytes(array: np.ndarray) -> bytes:
    return array.astype("<f4", copy=False).tobytes()


def _floats(raw: bytes, name: str) -> np.ndarray:
    if len(raw) % 4:
        raise SpecError(f"{name} is {len(raw)} bytes, must be a whole number of float32")
    return np.frombuffer(raw, "<f4").astype(np.float32, copy=False)
