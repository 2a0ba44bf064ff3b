"""Twenty faults of released stacks. Each test first shows that it catches the fault, then that ours is free of it.

What is called faulty here is a few lines that do it the wrong way; the same check must fail on them.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch
from google.protobuf.message import DecodeError
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from policies.rlpd import losses
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.control.action_space import ActionSpace
from robot_stack.learner.checkpoint import CheckpointFolder, pack
from robot_stack.learner.update_loop import Governor
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.replay.sampling import Draw
from robot_stack.rollout import live_policy
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.live_policy import LivePolicy
from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.security import require_loopback
from robot_stack.transport.bundle import SPEC_DIGEST, decode_params
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.codec import decode_step
from robot_stack.types.command import Mode
from robot_stack.types.errors import ResumeError, StoreError, TransportError
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.transition import EndReason, EpisodeKind, Step
from tests.disk.full import full_after
from tests.faults.fault_cell import ScriptedCell, SwitchingSource, fake_policy_network
from tests.faults.fault_rig import (
    IDLE,
    SPEC,
    TASK,
    FilteredArm,
    H,
    P,
    action_row,
    cell_spec,
    header_of,
    learner_of,
    record,
    steps_of,
    tensors,
    unmoved,
    weights,
)

ROOT = Path(__file__).resolve().parents[2]


def draw(replay: Replay, size: int = 256, **options: float) -> Draw:
    return replay.draw(np.random.default_rng(0), size, **{"gamma": 0.9, **options})  # type: ignore[arg-type]


def test_fault_01_stitching() -> None:
    replay = Replay(SPEC)
    record(replay, "a", [P, H, P, P, H], tag=1)
    record(replay, "b", [H, P, P, H, P], tag=2)

    def stitched(rows: np.ndarray, next_rows: np.ndarray) -> int:
        """Pairs that are not frame t and t + 1 of one episode."""
        now, after = (replay.frames.column("proprio")[r] for r in (rows, next_rows))
        return int(((now[:, 0] != after[:, 0]) | (now[:, 1] + 1 != after[:, 1])).sum())

    every = np.arange(len(replay.frames))
    assert stitched(every[:-1], every[1:]) == 1  # an end and the next episode's reset
    assert stitched(*map(np.array, zip(*pairwise(replay.pools.expert)))) == 3  # a pool of interventions of its own
    ours = draw(replay)
    assert ours.expert.any()
    assert stitched(ours.rows, ours.next_rows) == 0


def test_fault_02_timeout_is_not_terminal() -> None:
    discounts = {}
    for end in EndReason:
        replay = Replay(SPEC)
        record(replay, "a", [P], end)
        discounts[end] = float(draw(replay, expert_fraction=0.0).discount[0])
    done_is_terminal = dict.fromkeys(EndReason, 0.0)

    def bootstraps_right(found: dict[EndReason, float]) -> bool:
        cut_short = (EndReason.TIMEOUT, EndReason.OPERATOR, EndReason.FAULT)
        return all((found[end] > 0) == (end in cut_short) for end in EndReason)

    assert not bootstraps_right(done_is_terminal)
    assert bootstraps_right(discounts)


def test_fault_03_images_as_float32() -> None:
    spec, steps = cell_spec(128), 0
    replay = Replay(spec, feature_size=512)
    for number, kind in enumerate([EpisodeKind.DEMO, EpisodeKind.ONLINE, EpisodeKind.ONLINE]):
        record(replay, f"{number}", [H, P] * 50, kind=kind, spec=spec)
        steps += 100
    observation = next(steps_of("a", [P], spec=spec)).observation
    as_floats = sum(image.astype(np.float32).nbytes for image in observation.images.values())
    assert as_floats > 105_000  # and o' once more, and the expert pool once more
    assert replay.frames.nbytes / steps <= 105_000


def test_fault_04_proposed_is_not_executed() -> None:
    arm, replay = FilteredArm(), Replay(SPEC)
    replay.begin(header_of("a"))
    start = arm.pose
    proposed = np.array([1, 0, 0, 0, 0, 0, 0], np.float32)
    hand = np.array([0, -1.0, 0, 0, 0, 0])
    rows = []
    for t in range(20):
        window = arm.step(proposed, hand, deadman=5 <= t < 12)
        rows.append(action_row(arm.space.executed_action({"arm": window}), window.source, proposed=proposed))
    for step in steps_of("a", rows):
        replay.add_step(step)
    moved = arm.pose.relative_to(start).position_m

    def replayed(actions: np.ndarray) -> np.ndarray:
        """Where the recorded actions lead: metres per step times the entries."""
        return np.asarray(actions[:, :3].sum(axis=0) * SPEC.arms[0].translation_m)

    assert np.abs(replayed(np.stack([row.proposed for row in rows])) - moved).max() > 0.05
    batch = replay.sample(np.random.default_rng(0), 600, gamma=0.9)
    actions = np.stack([batch.action[batch.frame == t][0] for t in range(20)])
    np.testing.assert_allclose(replayed(actions), moved, atol=1e-4)


def test_fault_05_idle_tails() -> None:
    arm, replay = FilteredArm(), Replay(SPEC)
    hand = np.array([0, -1.0, 0, 0, 0, 0])
    still = np.zeros(7, np.float32)
    rows = []
    for t in range(18):
        window = arm.step(still, hand if 2 <= t < 8 else None, deadman=2 <= t < 14)
        rows.append(action_row(arm.space.executed_action({"arm": window}), window.source))
    record(replay, "a", rows)

    def motionless(frames: np.ndarray) -> int:
        return int((np.abs(replay.frames.column("executed")[frames]).max(axis=1) < 1e-3).sum())

    source = replay.frames.column("source")[:18]
    while_engaged = np.flatnonzero((source == H) | (source == IDLE))
    pause = 3  # steps: an operator may stand still for 0.3 s within a correction
    assert motionless(while_engaged) > pause
    assert len(replay.pools.expert) >= 6
    assert motionless(replay.pools.expert) <= pause
    assert set(np.flatnonzero(source == IDLE)) <= set(replay.pools.online)


def test_fault_06_gripper_label() -> None:
    closing, staying = np.zeros((2, 7), np.float32)
    closing[6] = -1.0
    rows = [action_row(closing if t in (3, 9) else staying, H, pressed=t in (3, 9)) for t in range(12)]
    replay = Replay(SPEC)
    record(replay, "a", rows)
    batch = replay.sample(np.random.default_rng(0), 512, gamma=0.9)

    def demonstrated(label: np.ndarray) -> float:
        """What imitation of the labelled rows makes of the gripper."""
        return float(np.median(batch.action[label, 6]))

    assert demonstrated(np.ones(512, np.bool_)) == 0.0  # "stay", which nobody showed
    assert demonstrated(batch.label[:, 6]) == -1.0


def test_fault_07_filter_state() -> None:
    replay = Replay(SPEC, RewardRule(success=1.0, step_penalty=0.02))
    record(replay, "a", [P, P, P], EndReason.SUCCESS)
    batch = replay.sample(np.random.default_rng(0), 64, gamma=0.9, expert_fraction=0.0)
    last = batch.frame == 2
    assert not (batch.reward == 1.0)[last].any()  # the reward that was to say so carries a penalty too
    np.testing.assert_array_equal(batch.discount == 0.0, last)
    assert replay.outcome("a") is Outcome.SUCCESS


def test_fault_08_twist_transform() -> None:
    tilted = Rotation.from_euler("xyz", [2.9, 0.2, 0.7])
    starts = [
        Pose.from_rotation(np.array([0.5, 0.1, 0.3]), Rotation.from_quat([1.0, 0.0, 0.0, 0.0])),
        Pose.from_rotation(np.array([0.4, -0.3, 0.2]), tilted),
    ]
    action = np.array([0.5, -0.2, 0.3, 0.1, 0.4, -0.6, 0.0], np.float32)
    twist = ActionSpace(SPEC).to_commands(action, stamp_ns=1)["arm"].twist

    def adjoint(twist: np.ndarray, pose: Pose) -> np.ndarray:
        turned = rotate_twist(twist, pose.matrix)
        turned[:3] += np.cross(pose.position_m, turned[3:])
        return turned

    def spread(to_base: Callable[[np.ndarray, Pose], np.ndarray]) -> float:
        """How differently two poses carry out one end-effector action, in metres and radians."""
        ends = []
        for start in starts:
            moved = to_base(twist, start) * SPEC.period_s
            turned = Rotation.from_rotvec(moved[3:]) * start.rotation
            end = Pose.from_rotation(start.position_m + moved[:3], turned).relative_to(start)
            ends.append(np.concatenate([end.position_m, end.rotation.as_rotvec()]))
        return float(np.abs(ends[0] - ends[1]).max())

    assert spread(adjoint) > 5e-3
    assert spread(lambda t, pose: rotate_twist(t, pose.matrix)) < 1e-12
    back = ActionSpace(SPEC).to_action({"arm": twist}, {"arm": None})
    np.testing.assert_allclose(back, action, atol=1e-6)


def test_fault_09_gripper_penalty_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = tensors()
    assert (batch.gripper_change[:, 0] & batch.label[:, 6]).any()
    true_target = losses.gripper_target
    targets: list[torch.Tensor] = []

    def ignoring(*values: torch.Tensor, penalty: float) -> torch.Tensor:
        return true_target(*values, penalty=0.0)

    def watched(*values: torch.Tensor, penalty: float) -> torch.Tensor:
        targets.append(true_target(*values, penalty=penalty))
        return targets[-1]

    def learned(penalty: float) -> list[torch.Tensor]:
        learner = learner_of(gripper_penalty=penalty)
        learner.update(batch)
        assert learner.policy.gripper is not None
        return list(weights(learner.policy.gripper).values())

    def reaches_the_loss() -> bool:
        return not all(torch.equal(free, dear) for free, dear in zip(learned(0.0), learned(0.5)))

    monkeypatch.setattr(losses, "gripper_target", ignoring)
    assert not reaches_the_loss()
    monkeypatch.setattr(losses, "gripper_target", watched)
    assert reaches_the_loss()
    free, dear = targets
    torch.testing.assert_close(free - dear, 0.5 * batch.gripper_change)
    assert RLPDConfig().gripper_penalty > 0.0  # in the default path too


def test_fault_10_unused_switches() -> None:
    asked = {"random_shift_padd": 4}
    assert {"random_shift_pad": 0, **asked}["random_shift_pad"] == 0  # a dict takes it, and nothing is switched on
    with pytest.raises(ValidationError, match="random_shift_padd"):
        RLPDConfig(**asked)  # type: ignore[arg-type]
    modules = [
        p
        for folder in ("policies", "robot_stack/learner", "robot_stack/rollout")
        for p in (ROOT / folder).rglob("*.py")
    ]
    read = {
        node.attr
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert not {"use_drq_augmentation"} <= read
    assert set(RLPDConfig.model_fields) <= read


def test_fault_11_critic_only_steps_must_not_move_the_actor() -> None:
    learner = learner_of(critic_actor_ratio=2)
    for seed in range(2):
        learner.update(tensors(seed))  # the second one is full: Adam has a momentum now

    before = weights(learner.policy.actor)
    learner.update(tensors(2))
    ours = unmoved(learner.policy.actor, before)

    faulty = torch.nn.Linear(3, 3)
    optimiser = torch.optim.Adam(faulty.parameters())
    faulty(torch.ones(2, 3)).square().sum().backward()
    optimiser.step()
    before_faulty = weights(faulty)
    (0.0 * faulty(torch.ones(2, 3)).sum()).backward()
    faulty.zero_grad(set_to_none=False)
    optimiser.step()
    assert unmoved(faulty, before_faulty) == []  # zero gradients, and yet it moves
    assert ours == list(before)
    learner.update(tensors(3))
    assert unmoved(learner.policy.actor, before) == []


def test_fault_12_frozen_trunk_with_its_trainable_head_inside() -> None:
    def stuck(learner: RLPDLearner) -> list[str]:
        """Parameters that two updates, one of them full, leave as they were."""
        trained = [learner.critic, learner.policy]
        before = [weights(module) for module in trained]
        for seed in range(2):
            learner.update(tensors(seed))
        return [name for module, old in zip(trained, before) for name in unmoved(module, old)]

    ours, faulty = learner_of(), learner_of()
    head = faulty.critic.encoder
    head.forward = torch.no_grad()(head.forward)  # type: ignore[method-assign]
    assert any("encoder" in name for name in stuck(faulty))
    assert stuck(ours) == []
    assert not any(parameter.requires_grad for parameter in ours.target.parameters())


def test_fault_13_updates_per_step_do_not_depend_on_the_hardware() -> None:
    def train(updates_per_s: int, governor: Governor | None) -> int:
        """Updates after ten seconds at 10 Hz, and ten more in which no data arrives."""
        done = 0
        for second in range(20):
            steps = min(10 * second, 100)
            for _ in range(updates_per_s):
                done += governor is None or governor.may_update(done, steps)
        return done

    utd, laptop, gpu = 2.0, 50, 5000
    assert train(gpu, None) == 100 * train(laptop, None)
    assert train(laptop, Governor(utd=utd, pretrain=0)) == train(gpu, Governor(utd=utd, pretrain=0)) == 200
    assert train(gpu, Governor(utd=utd, pretrain=30)) == 230


def test_fault_14_target_encoder() -> None:
    learner, batch = learner_of(), tensors()
    inputs = (batch.next_features, batch.next_proprio)
    arm = learner.layout.arm(batch.action)

    def moves_with(leader: torch.nn.Module, target: Callable[[], torch.Tensor]) -> bool:
        """Whether the target value changes at once with what is trained."""
        before, kept = target(), copy.deepcopy(leader.state_dict())
        with torch.no_grad():
            for parameter in leader.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        after = target()
        leader.load_state_dict(kept)
        return not torch.equal(before, after)

    shared = copy.deepcopy(learner.target)
    shared.encoder = learner.critic.encoder  # heads that train, in the middle of the target
    assert moves_with(learner.critic, lambda: shared(*inputs, arm))
    assert not moves_with(learner.critic, lambda: learner.target(*inputs, arm))

    tau, before = learner.config.target_tau, weights(learner.target)
    learner.update(batch)
    now = weights(learner.target)
    for name, parameter in weights(learner.critic).items():
        torch.testing.assert_close(now[name], before[name].lerp(parameter, tau))


def test_fault_15_demos_written_at_the_end_of_the_session(tmp_path: Path) -> None:
    def killed(run: Path) -> EpisodeStore:
        """What a power cut at this instant leaves."""
        shutil.copytree(run, left := tmp_path / "left")
        return EpisodeStore(left, SPEC, TASK)

    with EpisodeStore(tmp_path / "run", SPEC, TASK) as store:
        session: list[Step] = []
        file = tmp_path / "session.demos"  # the faulty way writes it when the session ends
        for number in range(19):
            store.begin(header_of(f"{number:02d}", EpisodeKind.DEMO))
            for step in steps_of(f"{number:02d}", [H] * 12, None if number == 18 else EndReason.SUCCESS):
                session.append(step)
                store.append(step)
        store.flush()
        with killed(tmp_path / "run") as left:
            on_disk = [step for i in (*left.episodes, *left.unfinished) for step in left.read(i).steps()]
        written = file.stat().st_size if file.exists() else 0
        file.write_text("\n".join(step.episode_id for step in session))
    assert written == 0
    assert [(step.episode_id, step.index) for step in on_disk] == [(step.episode_id, step.index) for step in session]


def test_fault_16_a_checkpoint_that_deletes_before_it_writes(tmp_path: Path) -> None:
    def state(updates: int) -> memoryview:
        return pack({"updates": updates, "weights": torch.ones(1000)}, success=0.5)

    def deleting_first(path: Path, content: memoryview) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    faulty, folder = tmp_path / "only.pt", CheckpointFolder(tmp_path / "checkpoints")
    deleting_first(faulty, state(1))
    folder.write(1, state(1), success=0.5)
    with full_after(100):
        with pytest.raises(OSError, match="File too large"):
            deleting_first(faulty, state(2))
        with pytest.raises(StoreError, match="it is tried again"):
            folder.write(2, state(2), success=0.5)
    with pytest.raises((RuntimeError, EOFError)):
        torch.load(faulty, weights_only=True)
    loaded = folder.load_latest()
    assert loaded is not None
    assert loaded["updates"] == 1


def test_fault_16_a_failed_load_that_continues_from_step_0(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.write(7, pack({"updates": 7}, success=0.5), success=0.5)
    (path,) = tmp_path.glob("step_*.pt")
    path.write_bytes(path.read_bytes()[:-50])

    def from_scratch() -> int:
        try:
            return int(torch.load(path, weights_only=True)["updates"])
        except RuntimeError:
            return 0

    assert from_scratch() == 0
    with pytest.raises(ResumeError, match=r"step_000000007.pt is unreadable .*must be whole; to go on"):
        folder.load_latest()


def test_fault_16_a_checkpoint_that_leaves_out_the_interventions() -> None:
    whole = Replay(SPEC)
    record(whole, "a", [P, H, H, P])
    record(whole, "b", [P, P])
    kept_online_only = Replay(SPEC)
    record(kept_online_only, "b", [P, P])
    assert len(kept_online_only.pools.expert) == 0
    assert len(whole.pools.expert) == 2
    with pytest.raises(ResumeError, match="episode a has 0 frames, must have 5 as at the checkpoint"):
        kept_online_only.load_state_dict(whole.state_dict())
    again = Replay(SPEC)
    record(again, "b", [P, P])
    record(again, "a", [P, H, H, P])
    again.load_state_dict(whole.state_dict())


def test_fault_17_a_restarted_learner_gets_duplicates_and_a_replacement_actor_hangs(tmp_path: Path) -> None:
    first, second = (list(steps_of(name, [P, H, P], None if name == "a" else EndReason.SUCCESS)) for name in "ab")
    arriving = [*first, *first, second[0], *first, *second, *second]  # actor 1 dies, actor 2 takes over, all is resent
    faulty = list(arriving)
    replay = Replay(SPEC)
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        for name, actor in (("a", "one"), ("b", "two"), ("a", "one")):
            store.begin(header_of(name, actor=actor))
            replay.begin(header_of(name, actor=actor))
        for step in arriving:
            assert store.append(step) == replay.add_step(step)
        assert store.episodes == ("b",)
    with EpisodeStore(tmp_path, SPEC, TASK) as store:  # a restarted learner
        assert store.unfinished == ("a",)
        for step in arriving:
            assert not store.append(step)
        kept = sum(1 for name in "ab" for _ in store.read(name).steps())
    assert len(faulty) == 18
    assert kept == len(replay.frames) == 7
    assert set(replay.frames.column("episode")[draw(replay).rows]) == {0, 1}


class Flag:
    """Unpickling it runs what its sender likes: here, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.mkdir, (self._path,)


def test_fault_18_pickle_on_an_open_port(tmp_path: Path) -> None:
    hostile = bytes(ForkingPickler.dumps(Flag(tmp_path / "taken-over")))
    ForkingPickler.loads(hostile)  # what multiprocessing does with whatever comes over its port
    assert (tmp_path / "taken-over").exists()
    (tmp_path / "taken-over").rmdir()

    with pytest.raises(DecodeError):
        decode_step(pb.Step.FromString(hostile), SPEC)
    metadata = {SPEC_DIGEST: SPEC.digest}
    message = pb.Params(version=1, safetensors=hostile, sha256=hashlib.sha256(hostile).hexdigest(), metadata=metadata)
    with pytest.raises(TransportError, match="must be safetensors"):
        decode_params(message, above_version=0, spec_digest=SPEC.digest)
    assert not (tmp_path / "taken-over").exists()
    with pytest.raises(TransportError, match="must be"):
        require_loopback("0.0.0.0:50051")


def test_fault_19_new_weights_only_at_episode_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_policy, "ActingPolicy", fake_policy_network(SPEC))
    recorded = {}
    for faulty in (True, False):
        cell = ScriptedCell(SPEC)
        policy = LivePolicy(
            SPEC, SwitchingSource(cell, at_tick=4, only_between_episodes=faulty), cell, seeds=np.random.default_rng(0)
        )
        policy.refresh()
        ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=8)).run_episode(header_of("a"), policy, cell)
        rows = [step.action for step in cell.steps if step.action is not None]
        recorded[faulty] = [(row.params_version, round(row.params_age_s, 3)) for row in rows]
    assert {version for version, _ in recorded[True]} == {1}
    assert [version for version, _ in recorded[False]] == [1, 1, 1, 1, 2, 2, 2, 2]
    ages_s = [age for _, age in recorded[False]]
    assert ages_s == sorted(ages_s[:4]) + sorted(ages_s[4:])
    assert ages_s[4] < ages_s[3]


def test_fault_19_blocking_upload_at_episode_end(tmp_path: Path) -> None:
    client = LearnerClient("127.0.0.1:1", SPEC, TASK, "actor-1", tmp_path / "spool")  # nobody listens there
    client.connect()
    try:
        client.begin(header_of("a"))
        for step in steps_of("a", [P] * 20):
            client.push(step)
        assert not client.wait_acked(timeout_s=0.3)  # the faulty loop would stand here
        assert client.counters.acked == 0
        client.begin(header_of("b"))
        for step in steps_of("b", [P] * 20):
            client.push(step)
        assert client.counters.not_spooled == 0
    finally:
        client.close(timeout_s=0.0)


BLOCKS_THE_LOOP = {
    "input('insert the peg, then press enter')": "input",
    "import time\ntime.sleep(0.6)  # until the gripper is there": "sleep",
    "import requests\nrequests.post(url, json=pose)": "no timeout",
    "from urllib.request import urlopen\nurlopen(url)": "no timeout",
}


def blocking(source: str) -> Iterator[str]:
    """What makes a control step wait without a bound."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name == "input":
            yield "input"
        if name.split(".")[-1] == "sleep":
            yield "sleep"
        over_http = name.split(".")[0] in ("requests", "httpx") or name.split(".")[-1] == "urlopen"
        if over_http and not any(keyword.arg == "timeout" for keyword in node.keywords):
            yield "no timeout"


def test_fault_20_nothing_blocks_a_step() -> None:
    for source, what in BLOCKS_THE_LOOP.items():
        assert list(blocking(source)) == [what]
    loop = ["robot_stack/control", "robot_stack/sensing", "robot_stack/teleop", "robot_stack/rollout/control_loop.py"]
    files = [path for top in loop for path in (sorted((ROOT / top).rglob("*.py")) or [ROOT / top])]
    assert len(files) > 15
    assert {str(path): found for path in files if (found := list(blocking(path.read_text())))} == {}


def test_fault_20_commands_clear_no_fault() -> None:
    action = np.array([0.5, 0, 0, 0, 0, 0, 0], np.float32)

    def moves_after_a_fault(*, clear_on_every_command: bool) -> bool:
        arm = FilteredArm()
        arm.step(action)
        arm.fault = Fault(kind=FaultKind.PROTECTIVE_STOP, text="protective stop")
        arm.step(action)
        arm.fault = None
        moved = False
        for _ in range(20):
            if clear_on_every_command:
                arm.filter.resume(arm.now_ns)
            moved |= bool(np.abs(arm.step(action).twist).max() > 1e-6)
        assert clear_on_every_command or arm.filter.mode is Mode.HOLD
        return moved

    assert moves_after_a_fault(clear_on_every_command=True)
    assert not moves_after_a_fault(clear_on_every_command=False)
