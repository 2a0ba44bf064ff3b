"""OGBench itself: its oracles make the play, its own truth labels it, its environment trains and evaluates."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ogbench", reason="no OGBench on this machine: pip install 'robot-stack[ogbench]'")

import gymnasium
import torch
from safetensors.torch import save_file

from benchmarks.suites import measure, ogbench, play
from benchmarks.suites.table import PUBLISHED, Runs, document, figures_of, read, table
from policies.learner import LearnerSpec
from policies.rlpd.policy import ArmCritic, RLPDPolicy
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.suites.prior import prior_replay
from robot_stack.suites.training import Evaluated, Progress

pytestmark = pytest.mark.long

TASK = ogbench.TASKS["puzzle-3x3-4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("play")
    before = play.EPISODE_STEPS
    play.EPISODE_STEPS = 300
    try:
        play.make_shards(TASK.domain, folder / TASK.domain, shards=1, episodes=2)
    finally:
        play.EPISODE_STEPS = before
    return folder


def test_play_presses_buttons_and_has_the_layout_of_ogbenchs_files(data: Path) -> None:
    arrays = play.read_shards(data / TASK.domain, 1)
    assert {name: part.shape for name, part in arrays.items()} == {
        "observations": (600, 55),
        "actions": (600, 5),
        "terminals": (600,),
        "qpos": (600, 23),
        "button_states": (600, 9),
    }
    assert arrays["observations"].dtype == arrays["actions"].dtype == np.float32
    assert np.flatnonzero(arrays["terminals"]).tolist() == [299, 599]
    pressed = np.abs(np.diff(arrays["button_states"], axis=0)).sum(axis=1) > 0
    assert pressed.sum() >= 8
    assert np.abs(arrays["actions"]).max() <= 1.0


def test_a_shard_that_is_there_is_not_made_again(data: Path, monkeypatch) -> None:
    monkeypatch.setattr(play, "play", lambda *_, **__: pytest.fail("made again"))
    play.make_shards(TASK.domain, data / TASK.domain, shards=1, episodes=2)


@pytest.mark.parametrize("name", list(ogbench.TASKS))
def test_every_task_of_the_table_has_its_environment_oracles_and_published_rows(name: str) -> None:
    task = ogbench.TASKS[name]
    assert task.domain in play.ORACLES
    assert {name in PUBLISHED[row] for row in ("RLPD", "RLPD-AC")} == {True}
    environment = gymnasium.make(task.environment)
    cell = GymnasiumCell(environment)
    assert cell.spec.action_size == 5
    environment.close()


def test_success_in_play_is_what_ogbench_says(data: Path) -> None:
    environment = gymnasium.make(TASK.environment)
    arrays = ogbench.labelled_play(TASK, environment, data / TASK.domain, 1)
    environment.reset(seed=0)
    wanted = environment.unwrapped._target_button_states  # type: ignore[attr-defined]
    arrays["button_states"][100:104] = wanted  # play of two episodes passes no goal by itself
    ogbench.relabel_dataset(TASK.environment, environment, arrays)
    replay = prior_replay(GymnasiumCell(environment).spec, ogbench.RULE, arrays)
    batch = replay.sample(np.random.default_rng(0), 20_000, gamma=0.99, expert_fraction=0.0)
    done = {tuple(row) for row in arrays["observations"][100:104]}
    for row, reward, discount in zip(batch.proprio, batch.reward, batch.discount, strict=True):
        assert (reward, discount == 0.0) == ((0.0, True) if tuple(row) in done else (-1.0, False))


@pytest.mark.slow
def test_a_short_run_with_decisions_of_one_step_trains_on_the_real_environment(
    data: Path, tmp_path: Path, monkeypatch
) -> None:
    shorten(monkeypatch)
    measure.measure(TASK, chunk=1, seed=3, steps=100, data=data, folder=tmp_path, eval_every=40)
    assert sorted(read(tmp_path).ogbench[0]["evaluations"], key=int) == ["60", "100"]


def test_a_short_run_is_evaluated_as_it_trains_or_later_from_policies_that_were_kept(
    data: Path, tmp_path: Path, monkeypatch
) -> None:
    shorten(monkeypatch)
    same: dict[str, Any] = {"chunk": 5, "seed": 3, "steps": 100, "data": data, "eval_every": 40}
    measure.measure(TASK, folder=tmp_path / "at once", **same)
    runs = read(tmp_path / "at once").ogbench
    assert [measure.key(run) for run in runs] == [(TASK.name, 5, "small", 3)]
    assert sorted(runs[0]["evaluations"], key=int) == ["60", "100"]
    assert measure.is_done(runs[0], 100)
    assert not measure.is_done(runs[0], 101)
    assert (tmp_path / "at once" / "SUITES.md").read_text().startswith("# Outside suites")
    policies = tmp_path / "policies"
    measure.measure(TASK, folder=tmp_path / "later", policies=policies, **same)
    assert not read(tmp_path / "later").ogbench
    assert len(list(policies.iterdir())) == 2
    made: list[int] = []

    def evaluate(task: ogbench.Task, state: Any, **asked: Any) -> int:
        assert asked["eval_episodes"] == 1
        made.append(ogbench_evaluate(task, state, **asked))
        return 0 if state["actor.encoder.proprio_mean"].any() else 7  # of an untrained network it would be zeros

    ogbench_evaluate = ogbench.evaluate
    monkeypatch.setattr(ogbench, "evaluate", evaluate)
    assert not measure.evaluate_kept(policies, tmp_path / "later")
    assert not measure.evaluate_kept(policies, tmp_path / "later")
    (later,), (at_once,) = read(tmp_path / "later").ogbench, read(tmp_path / "at once").ogbench
    assert made == [at_once["evaluations"][steps][0] for steps in ("60", "100")]
    assert later["evaluations"] == at_once["evaluations"] == {"60": [0, 1], "100": [0, 1]}
    same_names = ("task", "chunk", "networks", "seed", "steps", "device")
    assert {name: later[name] for name in same_names} == {name: at_once[name] for name in same_names}
    assert later["training"] != at_once["training"]


def kept(folder: Path, steps: int, *, training: str, seed: int = 0) -> None:
    names = {"task": TASK.name, "chunk": 5, "networks": "small", "seed": seed, "steps": 100_000}
    run = json.dumps({**names, "training": training, "evaluated": "sampled", "evaluations": {}})
    told = Progress(online_steps=steps, updates=steps, seconds=1.0, trained_episodes=1, trained_successes=0)
    progress = json.dumps(asdict(told))
    path = folder / f"{TASK.name}-chunk5-small-seed{seed}-{steps}.safetensors"
    save_file({"weight": torch.tensor([float(steps)])}, path, {"run": run, "progress": progress})


def test_another_training_of_the_same_seed_is_no_part_of_a_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ogbench, "evaluate", lambda task, state, **asked: int(state["weight"]) // 10_000)
    policies = tmp_path / "policies"
    policies.mkdir()
    kept(policies, 60_000, training="first")
    measure.evaluate_kept(policies, tmp_path)
    assert read(tmp_path).ogbench[0]["evaluations"] == {"60000": [6, 50]}
    kept(policies, 50_000, training="second")
    measure.evaluate_kept(policies, tmp_path)
    assert read(tmp_path).ogbench[0]["evaluations"] == {"60000": [6, 50]}, "it has not come as far"
    kept(policies, 100_000, training="second")
    measure.evaluate_kept(policies, tmp_path)
    (run,) = read(tmp_path).ogbench
    assert run["evaluations"] == {"50000": [5, 50], "100000": [10, 50]}
    assert run["training"] == "second"
    assert measure.is_done(run, 100_000)


def test_a_file_that_is_no_policy_is_named_and_the_others_are_evaluated(tmp_path: Path, monkeypatch, capsys) -> None:
    real = ogbench.evaluate
    monkeypatch.setattr(
        ogbench, "evaluate", lambda task, state, **asked: real(task, state, **asked) if asked["seed"] == 2 else 3
    )
    kept(tmp_path, 100_000, training="a")
    kept(tmp_path, 100_000, training="a", seed=2)
    (tmp_path / "cut.safetensors").write_bytes(b"half a file")
    save_file({"weight": torch.zeros(1)}, tmp_path / "foreign.safetensors")
    monkeypatch.setattr("sys.argv", ["suites", "--evaluate", str(tmp_path), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as said:
        measure.main()
    cut, foreign, of_another_size = str(said.value).splitlines()
    assert cut.startswith(f"{tmp_path / 'cut.safetensors'} is no policy that --keep has written")
    assert foreign.startswith(f"{tmp_path / 'foreign.safetensors'} is no policy that --keep has written")
    assert "seed2-100000.safetensors is of another task or size than this program's" in of_another_size
    assert [each["seed"] for each in read(tmp_path / "out").ogbench] == [0]
    monkeypatch.setattr("sys.argv", ["suites", "--evaluate", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit):
        measure.main()
    assert "no policy lies in" in capsys.readouterr().err


def test_a_run_whose_last_policy_was_kept_is_not_trained_again(tmp_path: Path, monkeypatch) -> None:
    kept(tmp_path, 60_000, training="a", seed=0)
    kept(tmp_path, 100_000, training="a", seed=1)
    asked = []
    monkeypatch.setattr(ogbench, "train", lambda task, *, seed, **rest: asked.append(seed))
    words = ["--only", TASK.name, "--chunks", "5", "--seeds", "0", "1", "--steps", "100000", "--keep", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["suites", *words, "--out", str(tmp_path / "out")])
    measure.main()
    assert asked == [0]


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trainings have little play, short episodes and one evaluation episode."""
    short: dict[str, Any] = {"random_steps": 20, "shards": 1, "shard_episodes": 2}
    train = ogbench.train
    monkeypatch.setattr(ogbench, "train", lambda task, **asked: train(task, **asked, **short))
    monkeypatch.setattr(ogbench.gymnasium, "make", lambda name: _shorter(name))
    monkeypatch.setattr(ogbench, "EVAL_EPISODES", 1)


_make = gymnasium.make


def _shorter(name: str) -> gymnasium.Env:
    return _make(name, max_episode_steps=40)


def run(
    seed: int, evaluations: dict[str, list[int]], *, chunk: int = 5, steps: int = 200_000, networks: str = "small"
) -> dict:
    return {
        "task": TASK.name,
        "chunk": chunk,
        "networks": networks,
        "seed": seed,
        "steps": steps,
        "evaluated": "sampled",
        "evaluations": evaluations,
    }


def test_seeds_are_pooled_beside_the_published_row() -> None:
    runs = Runs(ogbench=[run(0, {"0": [0, 50], "100310": [40, 50], "200000": [50, 50]}), run(1, {"100002": [50, 50]})])
    cells = document(runs)["ogbench"][TASK.name]["chunk5_small"]
    assert cells["100000"]["success"] == [0.8, 1.0]
    assert cells["200000"]["seeds"] == [0]
    text = table(runs)
    assert (
        "| puzzle-3x3-4 | 5 | 2 of 2x256, tanh | sampled | 100,000 | 0.90 (0.83 to 0.94) | 2 | 1.00 (0.98 to 1.00) |"
        in text
    )
    assert (
        "| puzzle-3x3-4 | 5 | 2 of 2x256, tanh | sampled | 200,000 | 1.00 (0.93 to 1.00) | 1 | 1.00 (1.00 to 1.00) |"
        in text
    )


def test_a_run_that_ended_before_the_published_steps_has_a_row_as_far_as_it_came() -> None:
    short = [run(0, {"50000": [3, 50], "60000": [40, 50]}), run(1, {"50064": [5, 50], "60021": [50, 50]})]
    runs = Runs(ogbench=[run(2, {"50000": [9, 50], "100000": [50, 50]}), *short])
    cells = document(runs)["ogbench"][TASK.name]["chunk5_small"]
    assert {at: cell["success"] for at, cell in cells.items()} == {"100000": [1.0], "60000": [0.8, 1.0]}
    text = table(runs)
    early = text.index("| puzzle-3x3-4 | 5 | 2 of 2x256, tanh | sampled | 60,000 | 0.90 (0.83 to 0.94) | 2 | - |")
    assert early < text.index(
        "| puzzle-3x3-4 | 5 | 2 of 2x256, tanh | sampled | 100,000 | 1.00 (0.93 to 1.00) | 1 | 1.00 (0.98 to 1.00) |"
    )


@pytest.mark.parametrize(
    ("evaluations", "row"),
    [
        ({"60": [1, 50], "100": [2, 50]}, [(100, (2, 50))]),
        ({"60000": [1, 50], "60900": [2, 50]}, [(60_000, (2, 50))]),
        ({"90000": [1, 50], "120000": [2, 50]}, [(120_000, (2, 50))]),
        ({"100310": [1, 50], "150000": [2, 50]}, [(100_000, (1, 50))]),
        ({}, []),
    ],
)
def test_rows_of_a_run_are_of_evaluations_that_were_made(evaluations: dict, row: list) -> None:
    assert figures_of(run(0, evaluations)) == row


def test_networks_of_the_published_size_have_rows_of_their_own(tmp_path: Path) -> None:
    for networks, successes in (("small", 1), ("published", 49)):
        measure.keep(run(0, {"100000": [successes, 50]}, networks=networks), tmp_path)
    found = read(tmp_path)
    assert [measure.key(one)[2] for one in found.ogbench] == ["published", "small"]
    text = table(found)
    assert (
        "| puzzle-3x3-4 | 5 | 2 of 2x256, tanh | sampled | 100,000 | 0.02 (0.00 to 0.10) | 1 | 1.00 (0.98 to 1.00) |"
        in text
    )
    assert (
        "| puzzle-3x3-4 | 5 | 10 of 4x512, ReLU | sampled | 100,000 | 0.98 (0.90 to 1.00) | 1 | 1.00 (0.98 to 1.00) |"
        in text
    )


def test_evaluations_of_the_mean_and_of_samples_are_no_one_row(tmp_path: Path) -> None:
    for seed, (how, successes) in enumerate((("mean", 10), ("sampled", 40))):
        measure.keep({**run(seed, {"100000": [successes, 50]}), "evaluated": how}, tmp_path)
    text = table(read(tmp_path))
    assert "| mean | 100,000 | 0.20 " in text
    assert "| sampled | 100,000 | 0.80 " in text


def test_networks_are_those_asked_for_and_everything_else_is_the_same() -> None:
    small, wide, published = (ogbench.settings(5, name) for name in ogbench.NETWORKS)
    assert (small.critics, small.hidden, small.layers) == (2, (256, 256), "hil_serl")
    assert (wide.critics, wide.hidden, wide.layers) == (10, (512,) * 4, "hil_serl")
    assert {(one.critic_subset, one.subset_mean, one.bf16) for one in (small, wide)} == {(1, False, True)}
    assert (published.critics, published.hidden, published.layers) == (10, (512,) * 4, "rlpd")
    assert (published.critic_subset, published.subset_mean, published.head, published.bf16) == (10, True, 0, False)
    same = set(ogbench.NETWORKS["published"])
    assert small.model_dump(exclude=same) == wide.model_dump(exclude=same) == published.model_dump(exclude=same)


def test_published_networks_have_the_layers_of_the_published_program() -> None:
    """Of `rlpd_networks/mlp.py` and `agents/acrlpd.py` of ColinQiyangLi/qc at 48283b4f662b."""
    seen = torch.zeros(55)
    spec = LearnerSpec(parts=(), proprio_mean=seen, proprio_std=seen, actions=5)
    actor = RLPDPolicy(spec, ogbench.settings(5, "published")).actor
    assert [type(layer).__name__ for layer in actor.body] == ["Linear", "ReLU"] * 4
    assert [layer.out_features for layer in actor.body[::2]] == [512] * 4  # type: ignore[union-attr]
    assert actor.body[0].in_features == 55
    assert actor.mean.out_features == actor.log_std.out_features == 25
    critic = ArmCritic(spec, ogbench.settings(5, "published"))
    assert [tuple(layer.weight.shape) for layer in (*critic.body, critic.out)] == [  # type: ignore[union-attr]
        *((10, 80, 512), (10, 1, 512)),
        *((10, 512, 512), (10, 1, 512)) * 3,
        (10, 512, 1),
    ]


def test_a_run_that_went_further_is_kept_until_the_new_one_has_come_as_far(tmp_path: Path) -> None:
    measure.keep(run(0, {"0": [0, 50], "100000": [20, 50]}), tmp_path)
    measure.keep(run(0, {"0": [0, 50]}), tmp_path)
    assert list(read(tmp_path).ogbench[0]["evaluations"]) == ["0", "100000"]
    measure.keep(run(0, {"0": [0, 50], "100000": [30, 50]}), tmp_path)
    assert read(tmp_path).ogbench[0]["evaluations"]["100000"] == [30, 50]


def test_an_unfinished_run_is_run_again_and_keeps_its_place_until_then(tmp_path: Path, monkeypatch) -> None:
    measure.keep(run(0, {"0": [0, 50]}), tmp_path)
    measure.keep(run(1, {"200000": [50, 50]}), tmp_path)
    asked = []

    def train(task, *, chunk, seed, steps, say, **rest) -> None:
        asked.append((task.name, chunk, seed))
        told = Progress(online_steps=steps, updates=steps, seconds=1.0, trained_episodes=1, trained_successes=0)
        say(Evaluated(**asdict(told), successes=1, episodes=50))

    monkeypatch.setattr(ogbench, "train", train)
    options = ["--only", TASK.name, "--chunks", "5", "--seeds", "0", "1", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["suites", *options])
    measure.main()
    assert asked == [(TASK.name, 5, 0)]
    found = json.loads((tmp_path / "suites.json").read_text())["ogbench"][TASK.name]["chunk5_small"]["200000"]
    assert found["seeds"] == [0, 1]
