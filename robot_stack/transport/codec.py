"""Conversion of steps, headers, labels, scores and status to protobuf and back.

Steps are checked against the Spec, the others against their bounds; a misfit is a SpecError. Arrays of a decoded step
are read-only views of the message.
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access import bounds
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.handshake import check_length
from robot_stack.transport.roster import ActorStatus
from robot_stack.transport.wire import MAX_MESSAGE_BYTES
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.names import check_name
from robot_stack.types.observation import Observation
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.stages import MOST_STAGES, StageMark
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, ResetType, Step

MemberT = TypeVar("MemberT", bound=StrEnum)
ARRAYS = ("executed", "proposed", "human")
"""Fields of an `ActionRow` that are actions."""


def encode_step(step: Step, spec: Spec) -> pb.Step:
    """Encode a step as a message; every array is copied, so the caller may reuse its buffers."""
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
    if message.ByteSize() > MAX_MESSAGE_BYTES - bounds.SLACK_BYTES:
        raise SpecError(
            f"step {step.episode_id}/{step.index} is {message.ByteSize()} bytes, must be below {MAX_MESSAGE_BYTES}; "
            "use fewer or smaller cameras"
        )
    return message


def decode_step(message: pb.Step, spec: Spec) -> Step:
    """Decode a step from its message; the inverse of `encode_step`."""
    observation = message.observation
    if len(observation.images) > len(spec.cameras):
        raise SpecError(
            f"number of images is {len(observation.images)}, must be at most the {len(spec.cameras)} cameras of the "
            "spec; start both ends with the same cell"
        )
    images = {image.camera: _pixels(image) for image in observation.images}
    if len(images) != len(observation.images):
        raise SpecError(f"cameras are {[i.camera[:40] for i in observation.images]}, must be unique")
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
        action=_decode_action(message.action, spec) if message.HasField("action") else None,
        end=_member(EndReason, message.end, "end") if message.end else None,
    )
    _check_step(step, spec)
    return step


def encode_header(header: EpisodeHeader) -> pb.EpisodeHeader:
    """Encode the header of an episode as a message."""
    _check_header(header)
    return pb.EpisodeHeader(**asdict(header))


def decode_header(message: pb.EpisodeHeader) -> EpisodeHeader:
    """Decode the header of an episode from its message; the inverse of `encode_header`."""
    values = _values(message, EpisodeHeader)
    members = {"kind": _member(EpisodeKind, message.kind, "kind"), "reset": _member(ResetType, message.reset, "reset")}
    header = EpisodeHeader(**{**values, **members})
    _check_header(header)
    return header


def encode_label(label: Label) -> pb.Label:
    """Encode a label, a verdict on an episode, as a message."""
    _check_label(label)
    return pb.Label(**asdict(label))


def decode_label(message: pb.Label) -> Label:
    """Decode a label from its message; the inverse of `encode_label`."""
    verdict = _member(Verdict, message.verdict, "verdict")
    source = _member(LabelSource, message.source, "source of the label")
    label = Label(**{**_values(message, Label), "verdict": verdict, "source": source})
    _check_label(label)
    return label


def encode_mark(mark: StageMark) -> pb.StageMark:
    """Encode a stage mark as a message."""
    _check_mark(mark)
    return pb.StageMark(**asdict(mark))


def decode_mark(message: pb.StageMark) -> StageMark:
    """Decode a stage mark from its message; the inverse of `encode_mark`."""
    source = _member(LabelSource, message.source, "source of the stage mark")
    mark = StageMark(**{**_values(message, StageMark), "source": source})
    _check_mark(mark)
    return mark


def encode_score(score: LiveScore) -> pb.LiveScore:
    """Encode a live score as a message."""
    _check_score(score)
    return pb.LiveScore(**asdict(score))


def decode_score(message: pb.LiveScore) -> LiveScore:
    """Decode a live score from its message; the inverse of `encode_score`."""
    score = LiveScore(**_values(message, LiveScore))
    _check_score(score)
    return score


def encode_status(status: LearnerStatus) -> pb.StatusReply:
    """Encode the status of the learner as a message."""
    actors = [pb.ActorStatus(**asdict(actor)) for actor in status.actors]
    message = status.message[: bounds.MAX_NOTE_CHARS]
    return pb.StatusReply(phase=status.phase, message=message, counters=dict(status.counters), actors=actors)


def decode_status(reply: pb.StatusReply) -> LearnerStatus:
    """Decode the status of the learner from its message; the inverse of `encode_status`."""
    if len(reply.counters) > bounds.MAX_COUNTERS or len(reply.actors) > bounds.MAX_KNOWN_ACTORS:
        raise SpecError(
            f"numbers of counters and actors are {len(reply.counters)} and {len(reply.actors)}, must be at most "
            f"{bounds.MAX_COUNTERS} and {bounds.MAX_KNOWN_ACTORS}; ask a learner of this program"
        )
    actors = tuple(ActorStatus(**_values(actor, ActorStatus)) for actor in reply.actors)
    status = LearnerStatus(phase=reply.phase, message=reply.message, counters=dict(reply.counters), actors=actors)
    _check_status(status)
    return status


def _encode_action(row: ActionRow) -> pb.ActionRow:
    arrays = {name: _to_bytes(getattr(row, name)) for name in ARRAYS}
    return pb.ActionRow(
        **{**_values(row, ActionRow), **arrays, "source": int(row.source), "sources": bytes(row.sources)}
    )


def _decode_action(message: pb.ActionRow, spec: Spec) -> ActionRow:
    if len(message.sources) > len(spec.arms):
        raise SpecError(f"number of sources is {len(message.sources)}, must be one an arm, {len(spec.arms)} or none")
    for source in (message.source, *message.sources):
        if source not in list(Source):
            raise SpecError(f"source is {source}, must be one of {[f'{s.value} {s.name}' for s in Source]}")
    arrays = {name: _floats(getattr(message, name), name) for name in ARRAYS}
    sources = tuple(Source(source) for source in message.sources)
    told = {**_values(message, ActionRow), **arrays, "source": Source(message.source), "sources": sources}
    return ActionRow(**told)


def _check_step(step: Step, spec: Spec) -> None:
    check_name(step.episode_id, "episode id")
    if not 0 <= step.index <= bounds.MAX_INDEX:
        raise SpecError(f"index is {step.index}, must be 0 to {bounds.MAX_INDEX}; begin another episode")
    spec.check_images(dict(step.observation.images))
    spec.check_proprio(step.observation.proprio)
    _check_duration(step.observation.age_s, "age_s")
    _check_duration(step.observation.skew_s, "skew_s")
    if step.action is None:
        return
    for name in ARRAYS:
        spec.check_action(getattr(step.action, name), name)
    spec.check_sources(step.action.sources)
    if not 0 <= step.action.params_version <= bounds.MAX_INT64:
        raise SpecError(f"params_version is {step.action.params_version}, must be 0 to {bounds.MAX_INT64}")
    _check_duration(step.action.params_age_s, "params_age_s")


def _check_header(header: EpisodeHeader) -> None:
    check_name(header.episode_id, "episode id")
    check_length(header.task, "task", bounds.MAX_NAME_CHARS)
    check_length(header.task_id, "task id", bounds.MAX_NAME_CHARS)
    check_length(header.actor, "actor", bounds.MAX_NAME_CHARS)
    _check_stamp(header.started_unix_s, "started_unix_s")


def _check_label(label: Label) -> None:
    check_name(label.episode_id, "episode id")
    check_length(label.note, "note of the label", bounds.MAX_NOTE_CHARS)
    _check_stamp(label.stamp_unix_s, "stamp_unix_s")


def _check_mark(mark: StageMark) -> None:
    check_name(mark.episode_id, "episode id")
    check_length(mark.name, "name of the stage", bounds.MAX_NAME_CHARS)
    for name, value, most in (("stage", mark.stage, MOST_STAGES), ("frame", mark.frame, bounds.MAX_INDEX)):
        if not 0 <= value <= most:
            raise SpecError(f"{name} of a stage mark is {value}, must be within 0 and {most}")
    _check_stamp(mark.stamp_unix_s, "stamp_unix_s")


def _check_score(score: LiveScore) -> None:
    check_name(score.episode_id, "episode id")
    check_length(score.version, "version", bounds.MAX_WORD_CHARS)
    for name, value in (("progress", score.progress), ("success", score.success)):
        if not (math.isnan(value) or 0.0 <= value <= 1.0):
            raise SpecError(f"{name} is {value}, must be within [0, 1] or NaN")


def _check_status(status: LearnerStatus) -> None:
    check_length(status.phase, "phase", bounds.MAX_WORD_CHARS)
    check_length(status.message, "message", bounds.MAX_NOTE_CHARS)
    for name in status.counters:
        check_length(name, "name of a counter", bounds.MAX_WORD_CHARS)
    for actor in status.actors:
        check_length(actor.actor_id, "actor", bounds.MAX_NAME_CHARS)


def _check_duration(value_s: float, name: str, most_s: float = bounds.MAX_DURATION_S) -> None:
    if not (math.isfinite(value_s) and 0.0 <= value_s <= most_s):
        raise SpecError(f"{name} is {value_s}, must be finite, 0 or more, and at most {most_s:g} s")


def _check_stamp(value_s: float, name: str) -> None:
    _check_duration(value_s, name, bounds.MAX_UNIX_S)


def _values(source: object, kind: type) -> dict[str, Any]:
    """Return what the fields of a dataclass are in a message, or in another dataclass: they have the same names."""
    return {field.name: getattr(source, field.name) for field in fields(kind)}


def _member(kind: type[MemberT], text: str, name: str) -> MemberT:
    try:
        return kind(text)
    except ValueError:
        raise SpecError(f"{name} is {text[:40]!r}, must be one of {[w.value for w in kind]}") from None


def _image(camera: str, pixels: np.ndarray) -> pb.Image:
    return pb.Image(camera=camera, height_px=pixels.shape[0], width_px=pixels.shape[1], rgb=pixels.tobytes())


def _pixels(image: pb.Image) -> np.ndarray:
    shape = (image.height_px, image.width_px, 3)
    if len(image.rgb) != math.prod(shape):
        raise SpecError(f"image {image.camera[:40]} is {len(image.rgb)} bytes, must be {math.prod(shape)} for {shape}")
    return np.frombuffer(image.rgb, np.uint8).reshape(shape)


def _to_bytes(array: np.ndarray) -> bytes:
    return array.astype("<f4", copy=False).tobytes()


def _floats(raw: bytes, name: str) -> np.ndarray:
    if len(raw) % 4:
        raise SpecError(f"{name} is {len(raw)} bytes, must be a whole number of float32")
    return np.frombuffer(raw, "<f4").astype(np.float32, copy=False)
