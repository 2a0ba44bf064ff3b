"""Synthetic episodes with nothing wrong in them, and folders of them."""

from __future__ import annotations

import resource
import signal
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_stack.datasets.new_store import NewStore
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType, back_id

TASK = "peg_insert"
TEXT = "insert the peg"
STEP_M = 0.01


def made_spec(side_px: int = 16, rate_hz: float = 10.0, cameras: Sequence[str] = ("front", "wrist")) -> Spec:
    return Spec(
        arms=(ArmSpec(name="arm", translation_m=STEP_M, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
        cameras=tuple(CameraSpec(name=name, height_px=side_px, width_px=side_px) for name in cameras),
        proprio=(ProprioField(name="tcp_pose", size=6), ProprioField(name="gripper", size=1)),
        rate_hz=rate_hz,
    )


def two_arm_spec(side_px: int = 16) -> Spec:
    one = made_spec(side_px)
    arms = tuple(replace(one.arms[0], name=name) for name in ("left", "right"))
    proprio = tuple(ProprioField(name=f"{arm.name}.{f.name}", size=f.size) for arm in arms for f in one.proprio)
    return replace(one, arms=arms, proprio=proprio)


def made_episode(
    episode_id: str,
    spec: Spec | None = None,
    *,
    steps: int = 20,
    kind: EpisodeKind = EpisodeKind.DEMO,
    end: EndReason = EndReason.SUCCESS,
    source: Source = Source.HUMAN,
    seed: int | None = None,
) -> StoredEpisode:
    """A smooth motion in front of noisy cameras; every value differs from episode to episode."""
    spec = spec or made_spec()
    rng = np.random.default_rng(zlib.crc32(episode_id.encode()) if seed is None else seed)
    frames = steps + 1
    phase = np.linspace(0, np.pi, steps)[:, None] + rng.uniform(0, 1, spec.action_size)
    executed = (0.6 * np.sin(phase)).astype(np.float32)
    proprio = np.zeros((frames, spec.proprio_size), np.float32)
    proprio[1:, :3] = np.cumsum(executed[:, :3] * STEP_M, axis=0)
    proprio[:, 6:] = rng.uniform(0, 1, (frames, spec.proprio_size - 6))
    arrays = {
        "proprio": proprio,
        "stamp_ns": 7_000_000_000
        + (np.arange(frames) * 1e9 / spec.rate_hz).astype(np.int64)
        + rng.integers(0, 999, frames),
        "age_s": rng.uniform(0.01, 0.04, frames).astype(np.float32),
        "skew_s": rng.uniform(0.0, 0.02, frames).astype(np.float32),
        "executed": executed,
        "proposed": (-executed).astype(np.float32),
        "human": executed * (source is Source.HUMAN),
        "gripper_pressed": rng.integers(0, 2, steps).astype(np.bool_),
        "clipped": rng.integers(0, 2, steps).astype(np.bool_),
        "params_version": rng.integers(0, 2**40, steps),
        "params_age_s": rng.uniform(0, 3, steps).astype(np.float32),
        "source": np.full(steps, source, np.uint8),
    }
    if len(spec.arms) > 1:
        arrays["sources"] = rng.choice([source, Source.HOLD], (steps, len(spec.arms))).astype(np.uint8)
    for camera in spec.cameras:
        arrays[IMAGE_PREFIX + camera.name] = moving_image(camera, frames, rng)
    header = EpisodeHeader(
        episode_id=episode_id, kind=kind, task=TASK, actor="a0", started_unix_s=1.75e9 + steps, seed=3, level=1
    )
    return StoredEpisode(header=header, spec=spec, end=end, arrays=arrays)


def moving_image(camera: CameraSpec, frames: int, rng: np.random.Generator) -> np.ndarray:
    """A square that moves over a slope of colours under a changing light; uint8, shape (frames, H, W, 3).

    Frames that follow one another differ by 12 or more on average.
    """
    high, wide = camera.height_px, camera.width_px
    slope = np.linspace(20, 100, wide)[None, None, :, None] * np.array([1.0, 0.8, 0.6])
    images = np.repeat(np.repeat(slope, frames, axis=0), high, axis=1)
    for t in range(frames):
        images[t] += 15 * (t % 8)
        at = t % (wide - 4)
        images[t, 2:6, at : at + 4] = (220, 60, 40)
    noisy: np.ndarray = np.clip(images + rng.normal(0, 2, images.shape), 0, 255).astype(np.uint8)
    return noisy


def changed(episode: StoredEpisode, **arrays: np.ndarray) -> StoredEpisode:
    """An episode with other arrays."""
    return replace(episode, arrays={**episode.arrays, **arrays})


def there_and_back(root: Path) -> StoreView:
    """A folder with an episode of the task and one of its way back."""
    spec = made_spec(side_px=64)
    there, back = (made_episode(f"00000{number}-demo-a", spec, steps=5) for number in range(2))
    header = replace(back.header, reset=ResetType.CARRIED, task_id=back_id(back.header.task))
    return write_folder(root, [there, replace(back, header=header)], others={header.task_id: "put it back"})


def label(episode_id: str, verdict: Verdict, source: LabelSource = LabelSource.OPERATOR, at: float = 1.0) -> Label:
    return Label(episode_id=episode_id, verdict=verdict, source=source, stamp_unix_s=at)


def mark(episode_id: str, stage: int, frame: int, name: str = "", *, removed: bool = False) -> StageMark:
    return StageMark(
        episode_id=episode_id, stage=stage, frame=frame, source=LabelSource.OPERATOR, stamp_unix_s=1.0, name=name,
        removed=removed,
    )  # fmt: skip


def write_folder(
    root: Path,
    episodes: Sequence[StoredEpisode],
    labels: Sequence[Label] = (),
    others: Mapping[str, str] | None = None,
    marks: Sequence[StageMark] = (),
) -> StoreView:
    """A folder of episodes on disk."""
    (root / "episodes").mkdir(parents=True)
    spec = episodes[0].spec
    store = NewStore(root=root, spec=spec, task=TASK, text=TEXT, others=dict(others or {}), labels=list(labels))
    store.marks += marks
    for episode in episodes:
        store.write(episode)
    store.finish("test", [], {})
    return open_store(root)


def contents(root: Path) -> dict[str, bytes]:
    """Every file below, with its bytes."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@contextmanager
def full_disk(most_bytes: int = 2000) -> Iterator[None]:
    """No file may grow beyond this, as on a disk that is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def assert_same_episode(found: StoredEpisode, wanted: StoredEpisode, *, images: bool = True) -> None:
    assert (found.header, found.spec, found.end) == (wanted.header, wanted.spec, wanted.end)
    assert set(found.arrays) == set(wanted.arrays)
    for name, values in wanted.arrays.items():
        if images or not name.startswith(IMAGE_PREFIX):
            assert found.arrays[name].dtype == values.dtype, name
            np.testing.assert_array_equal(found.arrays[name], values, err_msg=name)
