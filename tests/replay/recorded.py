"""Small episodes whose every value tells where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TASK = "insert"


def small_spec(side_px: int = 8, cameras: Sequence[str] = ("front", "wrist"), rate_hz: float = 10.0) -> Spec:
    return Spec(
        arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
        cameras=tuple(CameraSpec(name=name, height_px=side_px, width_px=side_px) for name in cameras),
        proprio=(ProprioField(name="pose", size=3),),
        rate_hz=rate_hz,
    )


def header_of(episode_id: str, kind: EpisodeKind = EpisodeKind.ONLINE) -> EpisodeHeader:
    return EpisodeHeader(episode_id=episode_id, kind=kind, task=TASK, actor="a", started_unix_s=1.0)


def steps_of(
    spec: Spec,
    episode_id: str,
    sources: Sequence[Source],
    end: EndReason | None = EndReason.TIMEOUT,
    *,
    tag: int = 1,
    pressed: Sequence[bool] | None = None,
) -> Iterator[Step]:
    """One action per source, then, with an `end`, the last frame. Proprio is (tag, t, t)."""
    for t in range(len(sources) + (end is not None)):
        action = None
        if t < len(sources):
            executed = np.full(spec.action_size, (t % 7) / 10, np.float32)
            action = ActionRow(
                executed=executed,
                proposed=-executed,
                human=executed / 2,
                source=sources[t],
                sources=(sources[t],) * len(spec.arms) if len(spec.arms) > 1 else (),
                gripper_pressed=pressed[t] if pressed is not None else False,
                clipped=t % 3 == 0,
                params_version=t,
                params_age_s=t / 4,
            )
        yield Step(
            episode_id=episode_id,
            index=t,
            observation=Observation(
                images={c.name: np.full(c.shape, (t + 17 * tag) % 256, np.uint8) for c in spec.cameras},
                proprio=np.array([tag, t, t], np.float32),
                stamp_ns=1000 * tag + t,
                age_s=0.5,
                skew_s=0.25,
            ),
            action=action,
            end=None if action is not None else end,
        )


def assert_same_step(found: Step, wanted: Step) -> None:
    assert (found.episode_id, found.index, found.end) == (wanted.episode_id, wanted.index, wanted.end)
    for name in ("stamp_ns", "age_s", "skew_s"):
        assert getattr(found.observation, name) == getattr(wanted.observation, name)
    np.testing.assert_array_equal(found.observation.proprio, wanted.observation.proprio)
    for name, image in wanted.observation.images.items():
        np.testing.assert_array_equal(found.observation.images[name], image)
    assert (found.action is None) == (wanted.action is None)
    if found.action is not None and wanted.action is not None:
        for name in ActionRow.__slots__:
            np.testing.assert_array_equal(getattr(found.action, name), getattr(wanted.action, name))
