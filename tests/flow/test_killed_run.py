"""kill -9 of the actor in an episode, then of the learner in the middle of training: the run goes on."""

from __future__ import annotations

import re

from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import ControlRow, EpisodeRow, ResumeRow, UpdateRow, of_kind
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.flow.flow_rig import PRETRAIN, Killed, actions, stored


def _controls(killed: Killed) -> list[ControlRow]:
    return of_kind(read_rows(killed.folder / "actor" / "actor.jsonl").rows, ControlRow)


def test_no_step_that_an_actor_recorded_is_lost(killed: Killed) -> None:
    assert killed.actor_exit == 0, "the actor could not deliver what it had spooled"
    on_disk = stored(killed.folder)
    controls = _controls(killed)
    assert len(controls) > len(killed.stored_at_kill)
    for row in (row for row in controls if row.steps):
        episode = on_disk[row.episode_id]
        assert (episode.length, episode.end) == (row.steps, row.end)
        assert len(episode.arrays["stamp_ns"]) == episode.length + 1


def test_episode_of_a_dead_actor_is_closed_as_a_fault_with_all_that_was_on_disk(killed: Killed) -> None:
    episode = stored(killed.folder)[killed.cut_id]
    assert episode.end is EndReason.FAULT
    assert episode.length >= killed.cut_at_kill.length - 1  # the motion of its newest frame led to one nobody saw
    assert killed.cut_id not in [row.episode_id for row in _controls(killed)]


def test_no_other_episode_stays_open(killed: Killed) -> None:
    with EpisodeStore(killed.folder / "store", killed.resolved.spec(), killed.resolved.task.name) as store:
        assert [name for name in store.unfinished if store.frames(name)] == []
        assert store.quarantined == {}


def test_episode_numbers_go_on_and_never_repeat(killed: Killed) -> None:
    numbers = [int(name[:6]) for name in stored(killed.folder) if name.endswith("-actor")]
    assert numbers == sorted(set(numbers))
    assert len(set(range(max(numbers) + 1)) - set(numbers)) <= 1  # the kill may have come between header and frame
    assert max(numbers) > int(killed.cut_id[:6])


def test_learner_goes_on_from_its_checkpoint(killed: Killed) -> None:
    resume = of_kind(read_rows(killed.folder / "metrics.jsonl").rows, ResumeRow)[-1]
    assert resume.updates == killed.checkpoint_at_kill
    assert resume.updates >= PRETRAIN
    on_disk = actions([e for name, e in killed.stored_at_kill.items() if "online" in name])
    assert resume.env_steps >= on_disk - 1  # a cut drops one


def test_curve_continues_after_the_kill(killed: Killed) -> None:
    rows = read_rows(killed.folder / "metrics.jsonl").rows
    last_resume = max(i for i, row in enumerate(rows) if row.kind == "resume")
    before = of_kind(rows[:last_resume], UpdateRow)
    after = of_kind(rows[last_resume:], UpdateRow)
    assert before
    assert [row.updates for row in after] == sorted({row.updates for row in after})
    assert after[-1].updates > before[-1].updates
    assert after[0].env_steps >= before[-1].env_steps
    assert all(row.replay > row.env_steps for row in after)


def test_counters_are_those_of_the_disk(killed: Killed) -> None:
    online = {name: e for name, e in stored(killed.folder).items() if name.endswith("-online-actor")}
    assert killed.status.counters["env_steps"] == actions(list(online.values()))
    assert killed.status.counters["episodes"] == len(online)
    assert killed.status.counters["updates"] > killed.status_at_kill.counters["updates"]


def test_learner_that_starts_again_asks_for_no_further_demonstration(killed: Killed) -> None:
    demos = [name for name, e in stored(killed.folder).items() if e.header.kind is EpisodeKind.DEMO]
    assert max(demos) < min(name for name in stored(killed.folder) if "online" in name)


def test_no_episode_is_counted_twice(killed: Killed) -> None:
    rows = of_kind(read_rows(killed.folder / "metrics.jsonl").rows, EpisodeRow)
    names = [row.episode_id for row in rows]
    assert len(names) == len(set(names))
    on_disk = stored(killed.folder)
    for row in rows:
        assert row.steps == on_disk[row.episode_id].length


def test_actors_take_the_parameters_of_the_learner_that_came_back(killed: Killed) -> None:
    newest_before = int(killed.status_at_kill.counters["params_version"])
    taken = [
        int(episode.arrays["params_version"].max())
        for name, episode in sorted(stored(killed.folder).items())
        if episode.header.kind is EpisodeKind.ONLINE and name.endswith("-actor") and episode.length
    ]
    assert taken == sorted(taken)
    assert taken[-1] > newest_before


def test_learner_whose_disk_takes_no_scores_says_so_goes_on_and_writes_them_once_it_does(killed: Killed) -> None:
    # Whichever is scored first: the one sent last, or any other that a new model scores again.
    said = rf"writing scores of \d{{6}}-\S+ failed: .*{re.escape(str(killed.folder))}/store/scores"
    assert re.search(said, killed.refused), killed.refused
    assert killed.learner_exit == 0
    assert list((killed.folder / "store" / "scores").rglob("999999-online-late*"))
    assert CheckpointFolder(killed.folder / "checkpoints").load_latest() is not None
