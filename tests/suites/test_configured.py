"""A task file names an environment: its spaces become the run's spec, its expert the operator, and all verbs follow."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ruamel.yaml import YAML

from benchmarks.learning.lockstep import train_online
from robot_stack.cli import sim
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.settings import hindsight_of, learning_settings
from robot_stack.learner.training import Training
from robot_stack.processes.table import cell_processes, process_table
from robot_stack.report.run_folder import read_run
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow, of_kind
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from robot_stack.types.transition import EndReason, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from tests.suites.test_gymnasium_cell import Always, Ending, run

HERE = "tests.suites.point_mass"
POINT = {"gymnasium": "tests/PointMass-v0", "module": HERE, "expert": f"{HERE}:straight"}
SEEN = POINT | {"gymnasium": "tests/SeenPointMass-v0", "expert": f"{HERE}:Expert"}
CAR = {"gymnasium": "MountainCarContinuous-v0", "expert": "robot_stack.suites.experts:swing_up", "success": "reward"}
PENDULUM = {"gymnasium": "Pendulum-v1", "expert": "tests.suites.test_configured:still"}
SMALL = {"batch_size": 32, "utd": 1.0, "hidden": [32, 32], "head": 16, "std_max": 0.3, "pretrain_updates": 60}


def still(seen: np.ndarray) -> np.ndarray:
    return np.zeros(1)


def write(folder: Path, **parts: Any) -> Path:
    for name, content in parts.items():
        (folder / name).mkdir(exist_ok=True, parents=True)
        with (folder / name / "point.yaml").open("w") as file:
            YAML().dump(content, file)
    return folder / "runs" / "point.yaml"


ASKED: dict[str, Any] = {
    "cell": "gymnasium", "task": "point", "seed": 0, "rate_hz": 10,
    "algorithm": {"name": "rlpd", "settings": SMALL},
    "encoder": {"name": "none"},
    "reward": {"name": "progress", "form": "sparse", "settings": {"steps": 20, "refit_steps": 20, "members": 1}},
    "training": {"demos": 3, "max_episodes": 3, "max_robot_minutes": 5, "eval_episodes": 3},
}  # fmt: skip


def task_of(sim: dict[str, Any]) -> dict[str, Any]:
    return {"name": "point", "text": "go to the goal", "episode_steps": 25, "sim": sim}


def loaded(folder: Path, sim: dict[str, Any], **changes: Any) -> ResolvedRun:
    """A run of an environment from files, with other settings of the run."""
    return load_run(write(folder, tasks=task_of(sim), runs=ASKED | changes))


def test_spaces_become_the_spec_and_the_saved_run_needs_no_environment(tmp_path: Path, monkeypatch) -> None:
    resolved = loaded(tmp_path, SEEN, encoder={"name": "embedded", "settings": {"steps": 5}})
    spec = resolved.spec()
    assert [(camera.name, camera.shape) for camera in spec.cameras] == [("eye", (24, 24, 3))]
    assert [(field.name, field.size) for field in spec.proprio] == [("place", 2)]
    assert (spec.action_size, spec.rate_hz) == (2, 10.0)
    (tmp_path / "saved.yaml").write_text(resolved.to_yaml())
    monkeypatch.setattr(gymnasium, "make", None)
    saved = load_resolved(tmp_path / "saved.yaml")
    assert saved.spec() == spec
    assert saved.document() == resolved.document()


@pytest.mark.parametrize("sim", [POINT, CAR, PENDULUM])
def test_local_cell_of_a_run_is_the_environment(tmp_path: Path, sim: dict[str, Any]) -> None:
    cell = build_local_cell(loaded(tmp_path, sim), seed=0)
    assert isinstance(cell, GymnasiumCell)
    cell.reset(5)
    first = cell.observe()
    cell.reset(5)
    again = cell.observe()
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first.proprio, again.proprio)
    cell.close()


def test_pendulum_ends_in_a_timeout_or_by_the_reward_that_counts(tmp_path: Path) -> None:
    short = {"kwargs": {"g": 9.0}}
    paid = build_local_cell(loaded(tmp_path, PENDULUM | short | {"success": "reward", "reward_above": -100.0}), seed=0)
    assert run(paid, EpisodeKind.ONLINE, Always(0.0))[0].end is EndReason.SUCCESS
    unpaid = build_local_cell(loaded(tmp_path, PENDULUM | short | {"success": "reward"}), seed=0)
    assert run(unpaid, EpisodeKind.ONLINE, Always(0.0), longest=300)[0].end is EndReason.TIMEOUT
    assert unpaid._environment.unwrapped.g == 9.0  # type: ignore[attr-defined]


class Silent(gymnasium.Env[Any, Any]):
    """An environment with the spaces that it is made with."""

    def __init__(self, seen: spaces.Space[Any], done: spaces.Space[Any], **drawn: Any) -> None:
        self.observation_space, self.action_space = seen, done
        self.render_mode = drawn.get("render_mode")


NUMBERS, MOVES = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))
for _name, _seen, _done in (
    ("Discrete", spaces.Discrete(4), MOVES),
    ("Nested", spaces.Dict({"a": spaces.Dict({"b": NUMBERS})}), MOVES),
    ("Unbounded", NUMBERS, spaces.Box(-np.inf, np.inf, (2,))),
    ("Capital", spaces.Dict({"State": NUMBERS}), MOVES),
    ("Stacked", spaces.Dict({"eye": spaces.Box(0, 255, (4, 64, 64, 3), np.uint8), "p": NUMBERS}), MOVES),
    ("Grey", spaces.Dict({"eye": spaces.Box(0, 255, (64, 64), np.uint8), "p": NUMBERS}), MOVES),
):
    gymnasium.register(f"tests/{_name}-v0", entry_point=Silent, kwargs={"seen": _seen, "done": _done})


def needing(**_: Any) -> None:
    import something_that_nobody_has  # noqa: F401


gymnasium.register("tests/Needing-v0", entry_point=needing)


@pytest.mark.parametrize(
    ("sim", "said"),
    [
        ({"gymnasium": "CartPole-v1"}, "action space is Discrete.*must be a Box of floats with finite bounds; wrap"),
        ({"gymnasium": "tests/Discrete-v0"}, "observation space is Discrete.*must be a Box or a Dict of Boxes"),
        ({"gymnasium": "tests/Nested-v0"}, "observation space is Dict.*must be a Box or a Dict of Boxes; flatten it"),
        ({"gymnasium": "tests/Unbounded-v0"}, "action space is Box.*must be a Box of floats with finite bounds"),
        ({"gymnasium": "tests/Capital-v0"}, "State"),
        (
            {"gymnasium": "tests/Stacked-v0"},
            r"shape of eye is \(4, 64, 64, 3\) uint8, must be \(H, W, 3\) for an image",
        ),
        (
            {"gymnasium": "tests/Grey-v0"},
            r"shape of eye is \(64, 64\) uint8, must be \(H, W, 3\) .*GrayscaleObservation",
        ),
        ({"gymnasium": "Pendulum-v0"}, "'Pendulum-v0' is an old version .*Pendulum-v1.*; correct the id"),
        ({"gymnasium": "Pusher-v5", "kwargs": {"xml_file": "nope.xml"}}, "cannot be made with .*nope.xml.*sim.kwargs"),
        ({"gymnasium": "Pendulun-v1"}, "'Pendulun-v1' is not registered .*correct the id, or name the module"),
        ({"gymnasium": "nobody/Task-v0"}, "'nobody/Task-v0' is not registered .*correct the id, or name the module"),
        ({"gymnasium": "Pendulum-v9"}, "'Pendulum-v9' is not registered"),
        ({"module": "nobody_has_it"}, "needs what is not installed .*nobody_has_it.*install it"),
        ({"gymnasium": "tests/Needing-v0"}, "needs what is not installed .*something_that_nobody_has.*install it"),
        ({"kwargs": {"gravity": 1.0}}, "cannot be made with .*gravity.*; correct sim.kwargs"),
        ({"gymnasuim": "Pendulum-v1"}, "extra inputs are not permitted"),
        ({"expert": None}, "expert: field required: the run asks for 3 demonstrations.*module:function"),
        ({"expert": "straight"}, "expert: .*"),
        ({"reward_above": 1.0}, "reward_above is 1.0 with success: info, which reads no reward; set success: reward"),
    ],
)
def test_environment_that_does_not_fit_is_refused_where_it_is_named(tmp_path: Path, sim: dict, said: str) -> None:
    written = {key: value for key, value in (POINT | sim).items() if value is not None}
    with pytest.raises(ConfigError, match=said) as refused:
        loaded(tmp_path, written)
    assert "tasks/point.yaml" in str(refused.value) or "environment tests" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("expert", "said"),
    [
        ("nobody_has_it:straight", "expert nobody_has_it:straight cannot be imported .*; correct task.sim.expert"),
        ("tests.suites.point_mass:nobody", "expert tests.suites.point_mass:nobody cannot be imported"),
        ("tests.suites.point_mass:LONGEST", "expert tests.suites.point_mass:LONGEST is int, must be a function"),
    ],
)
def test_expert_who_cannot_be_found_is_refused(tmp_path: Path, expert: str, said: str) -> None:
    resolved = loaded(tmp_path, POINT | {"expert": expert})
    with pytest.raises(ConfigError, match=said):
        build_local_cell(resolved, seed=0)


def test_missing_gymnasium_is_said_with_the_extra_that_brings_it(tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gymnasium" or ".suites" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ConfigError, match=r"package gymnasium is missing.*pip install 'robot-stack\[suites\]'"):
        loaded(tmp_path, POINT)


def test_what_the_environment_says_itself_is_refused_in_files(tmp_path: Path) -> None:
    resolved = loaded(tmp_path, POINT)
    assert resolved.task.success.n_of_m.n == 100
    task = task_of(POINT) | {"proprio": [{"name": "place", "size": 2}]}
    with pytest.raises(ConfigError, match=r"task\.proprio: proprio is given beside an environment, .*; remove it"):
        load_run(write(tmp_path, tasks=task))
    with pytest.raises(ConfigError, match=r"cell\.robot: robot is given beside an environment"):
        loaded(tmp_path, POINT, cell="sim")
    with pytest.raises(ConfigError, match="input is 'embedded', must be 'none' for an environment without images"):
        loaded(tmp_path, POINT, encoder={"name": "embedded"})


def test_environment_that_has_changed_since_the_run_began_is_refused(tmp_path: Path, monkeypatch) -> None:
    resolved = loaded(tmp_path, POINT)
    monkeypatch.setattr(
        "tests.suites.point_mass.PointMass.__init__", lambda self: Silent.__init__(self, NUMBERS, MOVES)
    )
    with pytest.raises(ConfigError, match=r"has other spaces than when the run began, now .*; start another run"):
        build_local_cell(resolved, seed=0)


def test_there_are_no_nodes_of_an_environment(tmp_path: Path) -> None:
    resolved = loaded(tmp_path, POINT)
    assert [row.name for row in process_table(resolved, tmp_path)] == ["learner", "actor"]
    with pytest.raises(ConfigError, match="run point is of the environment 'tests/PointMass-v0', must be of a cell"):
        cell_processes(resolved, tmp_path)


SPOILT = [
    (np.array([0.0, np.nan, 0.0]), 0.0, "observation 'state' is .*, must be finite; repair the environment"),
    (np.array([0.0, np.inf, 0.0]), 0.0, "observation 'state' is .*, must be finite"),
    (np.zeros(4), 0.0, r"observation 'state' is float64 \(4,\), must be float64 \(3,\); repair the environment"),
    (np.array(["a", "b", "c"]), 0.0, r"observation 'state' is <U1 \(3,\), must be float64 \(3,\)"),
    (None, 0.0, "observation 'state' is missing, must be"),
    (np.zeros(3), np.nan, "reward of step 2 is nan, must be finite; repair the environment"),
]


@pytest.mark.parametrize(("seen", "reward", "said"), SPOILT)
def test_step_that_is_spoilt_never_becomes_a_row(seen: Any, reward: float, said: str) -> None:
    environment = Ending(terminated=True, success=True)
    step = environment.step

    def spoilt(action: np.ndarray) -> Any:
        shown, paid, *rest = step(action)
        return (seen, reward, *rest) if environment._steps == 2 else (shown, paid, *rest)

    environment.step = spoilt  # type: ignore[method-assign]
    cell = GymnasiumCell(environment)
    outcome, kept = run(cell, EpisodeKind.ONLINE, Always(0.0, 0.0))
    assert (outcome.end, outcome.truth) == (EndReason.FAULT, False)
    assert outcome.ticks.hold_reasons
    np.testing.assert_array_equal([step.observation.proprio[0] for step in kept.steps], [0, 1])
    if not np.isfinite(reward):
        with pytest.raises(RobotError, match=f"the episode before was broken off: {said}"):
            cell.reset(1)
        cell.reset(1)


def test_image_of_another_size_is_no_frame(tmp_path: Path) -> None:
    resolved = loaded(tmp_path, SEEN, encoder={"name": "embedded"})
    cell = build_local_cell(resolved, seed=0)
    cell.reset(0)
    cell._seen["eye"] = cell._seen["eye"][:20]  # type: ignore[attr-defined]
    with pytest.raises(RobotError, match=r"observation 'eye' is uint8 \(20, 24, 3\), must be uint8 \(24, 24, 3\)"):
        cell.observe()
    cell._seen["eye"] = np.zeros((24, 24, 3), np.float32)  # type: ignore[attr-defined]
    with pytest.raises(RobotError, match=r"observation 'eye' is float32 \(24, 24, 3\), must be uint8"):
        cell.observe()


class Drawn(Silent):
    """An environment that draws a bar as long as its number."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # type: ignore[misc]
    picture: Any = np.full((40, 60, 3), 200, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 0.0, False, False, {"success": True}

    def render(self) -> Any:
        return self.picture


gymnasium.register("tests/Drawn-v0", entry_point=Drawn, kwargs={"seen": NUMBERS, "done": MOVES})
DRAWN = {
    "gymnasium": "tests/Drawn-v0", "expert": "tests.suites.test_configured:still",
    "render": {"name": "side", "height_px": 16, "width_px": 24},
}  # fmt: skip


def test_rendering_is_a_camera_where_that_is_wanted(tmp_path: Path, monkeypatch) -> None:
    resolved = loaded(tmp_path, DRAWN, encoder={"name": "embedded"})
    assert [(camera.name, camera.shape) for camera in resolved.spec().cameras] == [("side", (16, 24, 3))]
    cell = build_local_cell(resolved, seed=0)
    cell.reset(0)
    seen = cell.observe()
    assert seen is not None
    assert (seen.images["side"] == 200).all()
    assert seen.proprio.shape == (2,)
    monkeypatch.setattr(Drawn, "picture", None)
    with pytest.raises(RobotError, match=r"rendering is NoneType, must be a uint8 image \(H, W, 3\); leave sim.render"):
        cell.reset(0)


def two_numbers(seen: np.ndarray) -> np.ndarray:
    assert seen.shape == (2,), "an expert is shown what the environment shows, not the picture"
    return np.zeros(2)


def test_the_expert_is_shown_what_the_environment_shows_though_it_is_rendered(tmp_path: Path) -> None:
    resolved = loaded(
        tmp_path, DRAWN | {"expert": "tests.suites.test_configured:two_numbers"}, encoder={"name": "embedded"}
    )
    cell = build_local_cell(resolved, seed=0)
    cell.reset(0)
    cell.start("0", EpisodeKind.DEMO)
    cell.sleep_until_ns(cell.now_ns() + 10**8)
    cell.observe()
    assert cell.truth()


def test_what_rendering_needs_is_said(tmp_path: Path, monkeypatch) -> None:
    def undrawn(_: Drawn) -> None:
        raise gymnasium.error.DependencyNotInstalled('pygame is not installed, run `pip install "gymnasium[classic]"`')

    cell = build_local_cell(loaded(tmp_path, DRAWN, encoder={"name": "embedded"}), seed=0)
    monkeypatch.setattr(Drawn, "render", undrawn)
    with pytest.raises(RobotError, match=r"cannot be drawn \(pygame is not installed.*; install it, or leave out sim"):
        cell.reset(0)


def test_a_class_beside_the_module_that_registers_it_is_found(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "my_ids.py").write_text("import gymnasium\ngymnasium.register('Mine-v0', entry_point='my_task:Task')\n")
    (tmp_path / "my_task.py").write_text("from tests.suites.point_mass import PointMass as Task\n")
    monkeypatch.chdir(tmp_path)
    resolved = loaded(tmp_path, POINT | {"gymnasium": "Mine-v0", "module": "my_ids"})
    assert resolved.spec().action_size == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("sim", "encoder"), [(POINT, {"name": "none"}), (SEEN, {"name": "embedded", "settings": {"steps": 60}})]
)
def test_learner_clones_the_expert_and_trains_online_on_it(tmp_path: Path, sim: dict, encoder: dict) -> None:
    resolved = loaded(tmp_path, sim | {"patience": 15}, encoder=encoder)
    train_online(resolved, tmp_path / "run")
    rows = of_kind(read_rows(RunPaths(tmp_path / "run").metrics).rows, EpisodeRow)
    kinds = [row.episode_kind for row in rows]
    demos, online = (kinds.count(kind) for kind in (EpisodeKind.DEMO, EpisodeKind.ONLINE))
    assert kinds == [EpisodeKind.DEMO] * demos + [EpisodeKind.ONLINE] * online
    assert demos == 3
    assert 3 <= online <= 6  # on a busy machine the actor is told late that there are enough, and makes more
    record = read_run(tmp_path / "run")  # with verdicts that arrived after a row was written, as the run ended
    rows = [*record.episodes(EpisodeKind.DEMO), *record.episodes(EpisodeKind.ONLINE)]
    assert all(row.truth for row in rows[:demos])
    assert {row.end for row in rows} <= {EndReason.SUCCESS, EndReason.TIMEOUT}
    assert [row.truth for row in rows] == [row.end is EndReason.SUCCESS for row in rows]
    params = load_params(RunPaths(tmp_path / "run").policy("policy"))
    assert len(evaluate(resolved, params, 3).successes) == 3


@pytest.mark.slow
def test_sim_goes_from_demonstrations_to_the_report_without_ros(tmp_path: Path) -> None:
    path = write(tmp_path / "files", tasks=task_of(POINT), runs=ASKED)
    words = ["sim", "--name", "tried", "--task", str(path), "--root", str(tmp_path / "files"), "--plain"]
    verb = [sys.executable, "-m", "robot_stack.cli.main", *words]
    made = subprocess.run(verb, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stdout + made.stderr
    folder = RunPaths(tmp_path / "runs" / "tried")
    summary = json.loads(folder.summary.read_text())
    assert (summary["policy"]["episodes"], summary["bc"]["episodes"]) == (3, 3)
    assert {path.stem for path in folder.log.glob("*.log")} >= {"learner", "actor"}
    assert not list(folder.log.glob("safety*"))


@pytest.mark.slow
def test_two_actors_named_on_the_command_line_teach_one_learner(tmp_path: Path) -> None:
    resolved = loaded(tmp_path, POINT, training=ASKED["training"] | {"max_episodes": 8})
    folder = RunPaths(tmp_path / "together")
    folder.folder.mkdir()
    folder.resolved.write_text(resolved.to_yaml())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    LinkToken.keep(folder.folder)  # which the learner and both actors read
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = []
    for name, module, *words in (
        ("learner", "robot_stack.learner.process", "--address", address, "--wandb", "disabled"),
        ("left", "robot_stack.suites.actor_process", "--learner", address, "--id", "left"),
        ("right", "robot_stack.suites.actor_process", "--learner", address, "--id", "right"),
    ):
        command = [sys.executable, "-m", module, "--run", str(folder.resolved), *words]
        with (tmp_path / f"{name}.log").open("w") as log:
            running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
    try:
        deadline_s = time.monotonic() + 600
        while any(process.poll() is None for process in running) and time.monotonic() < deadline_s:
            if any(process.poll() for process in running):  # one has failed: the others would wait for it
                break
            time.sleep(0.1)
    finally:
        for process in running:
            process.kill()
            process.wait()
    said = {path.stem: path.read_text()[-2000:] for path in tmp_path.glob("*.log")}
    assert [process.returncode for process in running] == [0, 0, 0], said
    rows = of_kind(read_rows(folder.metrics).rows, EpisodeRow)
    online = [row.episode_id for row in rows if row.episode_kind is EpisodeKind.ONLINE]
    assert len(online) == len(set(online)) >= 8
    assert {name.rsplit("-", 1)[1] for name in online} == {"left", "right"}


def test_a_step_is_tried_before_a_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, tasks=task_of(PENDULUM), runs=ASKED)
    with pytest.raises(SpecError, match=r"info has \[.*\], must have 'success' or 'is_success'; judge by the reward"):
        sim.run("mine", task=str(path), plain=True, root=tmp_path)
    assert not (sim.RUNS / "mine").exists()


@pytest.mark.long
def test_task_of_ogbench_is_one_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("ogbench")
    puzzle = {"gymnasium": "puzzle-3x3-singletask-task4-v0", "module": "ogbench"}
    resolved = loaded(tmp_path, puzzle | {"expert": "tests.suites.test_configured:idle"})
    cell = build_local_cell(resolved, seed=0)
    outcome, kept = run(cell, EpisodeKind.EVAL, Always(*np.zeros(5)), longest=5)  # type: ignore[arg-type]
    cell.close()
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, 5)
    assert resolved.spec().action_size == 5
    assert kept.steps[0].observation.proprio.shape == (resolved.spec().proprio_size,)


def idle(seen: np.ndarray) -> np.ndarray:
    return np.zeros(5)


GOAL = {"desired": "goal", "achieved": "place", "within": 0.12}
SHAPED = {"name": "progress", "form": "potential"}


def test_a_run_with_hindsight_trains_on_relabelled_goals(tmp_path: Path) -> None:
    files = write(tmp_path, tasks=task_of(POINT) | {"goal": GOAL}, runs=ASKED | {"hindsight": 0.7})
    resolved = load_run(files)
    told = hindsight_of(resolved)
    assert told is not None
    assert (told.share, told.desired, told.achieved, told.within) == (0.7, slice(0, 2), slice(2, 4), 0.12)
    assert hindsight_of(load_run(files, ["hindsight=0"])) is None
    train_online(resolved, tmp_path / "run")
    settings = learning_settings(resolved)
    training = Training(resolved, tmp_path / "run")
    training.serve("127.0.0.1:0")
    try:
        replay = training.prepare(threading.Event()).recorded.replay
    finally:
        training.close()
    batch = replay.sample(np.random.default_rng(0), 500, gamma=settings.config.sampling.gamma)
    given = {tuple(goal) for goal in replay.frames.column("proprio")[:, told.desired].tolist()}
    assert np.mean([tuple(goal) not in given for goal in batch.proprio[:, told.desired].tolist()]) == pytest.approx(
        0.7, abs=0.1
    )


@pytest.mark.parametrize(
    ("goal", "changes", "key", "said"),
    [
        (None, {}, "run.hindsight", "must be 0 for a task without goal; add goal: "),
        (
            GOAL,
            {"reward": ASKED["reward"] | {"form": "potential"}},
            "run.reward.form",
            "must be 'sparse' with hindsight",
        ),
        (GOAL, {"hindsight": 1.0}, "hindsight", "less than 1"),
        (GOAL | {"desired": "gaol"}, {}, "goal.desired", "desired is 'gaol', must be one of goal, place"),
        (GOAL | {"achieved": "goal"}, {}, "goal.achieved", "must be another field than desired"),
        (GOAL | {"within": 0}, {}, "goal.within", "greater than 0"),
    ],
)
def test_goals_that_cannot_be_relabelled_are_refused(
    tmp_path: Path, goal: dict[str, Any] | None, changes: dict[str, Any], key: str, said: str
) -> None:
    task = task_of(POINT) | ({} if goal is None else {"goal": goal})
    with pytest.raises(ConfigError, match=rf"point\.yaml:\d+:\d+: {key}: .*{said}"):
        load_run(write(tmp_path, tasks=task, runs=ASKED | {"hindsight": 0.7} | changes))
