"""summary.json: the figures of a run. What cannot be known is null, and `missing` says which input it lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reward_models.metrics import wilson_interval
from robot_stack.disk.durable import write_durable
from robot_stack.report.asked_help import help_figures
from robot_stack.report.learned_from import judge
from robot_stack.report.run_folder import Figures, RunRecord, numbers, read_run
from robot_stack.runs.critic import NEWEST, critic_figures
from robot_stack.runs.rows import EndRow, EpisodeRow, FitRow, RewardFitRow, UpdateRow, of_kind
from robot_stack.types.transition import EpisodeKind

ENDS = 20
"""Training episodes at the start and at the end over which the share of human steps is taken."""
RATE_EPISODES = 40
"""Newest training episodes whose capture stamps give the measured control rate."""


def build_summary(folder: Path) -> dict[str, Any]:
    """Compute the figures of the run in `folder`.

    Raises:
        StoreError: If the folder does not exist.
    """
    return summarise(read_run(folder))


def write_summary(record: RunRecord) -> dict[str, Any]:
    """Compute the figures and write `summary.json` beside the run, whole or not at all; returns them.

    A run that was pulled came with figures and without what they are computed from: those stay, unless measured here.
    """
    summary = summarise(record)
    if not record.rows and not record.actor_rows:
        summary = _kept(_read(record.paths.summary), summary)
        summary["missing"] = _missing(summary, record)
    write_durable(record.paths.summary, json.dumps(summary, indent=2) + "\n")
    return summary


def summarise(record: RunRecord) -> dict[str, Any]:
    """Compute the figures of a run that has been read."""
    online = record.episodes(EpisodeKind.ONLINE)
    judged = [row for row in online if not row.discarded]
    summary: dict[str, Any] = {
        "task": record.resolved.task.name if record.resolved else None,
        "seed": record.resolved.run.seed if record.resolved else None,
        "demos": {"episodes": _demos(record)},
        "bc": _evaluation(record.bc),
        "policy": _evaluation(record.policy),
        "training": _training(record, online, judged),
        "reward": _reward(record, judged),
        "control": _control(record, online),
        "learner": _learner(record),
        "critic": _critic(record),
        "replay": _replay(record),
        "memory_mb": _get(record.memory, "peak_mb"),
    }
    if (asked := help_figures(record.actor_rows)) is not None:
        summary["asking"] = asked
    summary["missing"] = _missing(summary, record)
    return summary


def _read(path: Path) -> Figures:
    """Return the figures of a `summary.json`; none where there is no sound one."""
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _kept(earlier: Figures, now: Figures) -> Figures:
    """Return the present figures, and where one is null the earlier one of the same name."""
    kept = {**earlier, **now}
    for name, value in now.items():
        before = earlier.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            kept[name] = {**before, **{key: entry for key, entry in value.items() if entry is not None}}
        elif value is None:
            kept[name] = before
    return kept


def human_share(episodes: list[EpisodeRow]) -> float | None:
    """Return the share of steps that an operator executed; None without steps."""
    steps = sum(row.steps for row in episodes)
    return _rounded(sum(row.human_steps for row in episodes) / steps) if steps else None


def _base_share(episodes: list[EpisodeRow]) -> float | None:
    """Return the share of steps in which the base policy led in the policy's place; None without steps."""
    steps = sum(row.steps for row in episodes)
    return _rounded(sum(row.base_steps for row in episodes) / steps) if steps else None


def _demos(record: RunRecord) -> int | None:
    fits = of_kind(record.rows, FitRow)
    if fits:
        return fits[-1].demos  # those that everything was fitted on
    return sum(row.success for row in record.episodes(EpisodeKind.DEMO)) or None


def _evaluation(evaluation: Figures | None) -> Figures:
    told = {key: _get(evaluation, key) for key in ("episodes", "success", "wilson95", "cycle_s", "observation_age_ms")}
    for key in ("score", "tasks"):  # of tasks that are scored as insertions, and of several tasks
        if (known := _get(evaluation, key)) is not None:
            told[key] = known
    return told


def _training(record: RunRecord, online: list[EpisodeRow], judged: list[EpisodeRow]) -> Figures:
    """Compute the figures of online training: all that was run in numbers and times, and what counts in shares."""
    end = of_kind(record.rows, EndRow)
    return {
        "episodes": len(online) if record.rows else None,
        "env_steps": end[-1].env_steps if end else sum(row.steps for row in online) if online else None,
        "robot_time_s": _rounded(sum(row.duration_s for row in online)) if online else None,
        "wall_s": _training_wall_s(record, online),
        "human_share": human_share(judged),
        "base_share": _base_share(judged),
        "human_share_first20": human_share(judged[:ENDS]),
        "human_share_last20": human_share(judged[-ENDS:]),
    }


def _training_wall_s(record: RunRecord, online: list[EpisodeRow]) -> float | None:
    """Return the wall time of online training in seconds; None if it is not known.

    It is what was timed, else from the start of the first training episode to the last row about one.
    """
    timed = _get(record.phases, "training")
    if timed is not None or not online:
        return timed
    return _rounded(max(row.t for row in online) - min(row.started_unix_s for row in online))


def _reward(record: RunRecord, online: list[EpisodeRow]) -> Figures:
    r"""Compute the audit of the model's verdict against the simulator's.

    false-done rate = #(declared success, truth not success) / #(truth not success);
    missed rate = #(truth success, not declared) / #(truth success). Episodes without a truth are in neither, nor
    are those of a run whose environment says by itself when the task is done.
    """
    asked = online if record.model_judges else []
    failed = [row for row in asked if row.truth is False]
    succeeded = [row for row in asked if row.truth is True]
    false_done = sum(row.declared for row in failed)
    missed = sum(not row.declared for row in succeeded)
    known = bool(failed or succeeded)
    fits = of_kind(record.rows, RewardFitRow)
    return {
        "false_done_rate": _rounded(false_done / len(failed)) if failed else None,
        "false_done_wilson95": [round(x, 4) for x in wilson_interval(false_done, len(failed))] if known else None,
        "missed_rate": _rounded(missed / len(succeeded)) if succeeded else None,
        "voc_heldout": fits[0].voc_heldout if fits else None,
        "voc_clock": fits[0].voc_clock if fits else None,
        "voc_heldout_last": fits[-1].voc_heldout if fits else None,
        "false_done": false_done if known else None,
        "episodes_failed": len(failed) if known else None,
        "missed": missed if known else None,
        "episodes_succeeded": len(succeeded) if known else None,
    }


def _control(record: RunRecord, online: list[EpisodeRow]) -> Figures:
    controls = record.controls(EpisodeKind.ONLINE)
    return {
        "rate_hz": _measured_rate_hz(record, [row.episode_id for row in online[-RATE_EPISODES:]]),
        "jitter_p99_ms": _p99(numbers(row.jitter_ms for row in controls)),
        "observation_age_p50_ms": _percentile(numbers(row.age_ms for row in controls), 50),
        "observation_age_p99_ms": _p99(numbers(row.age_ms for row in controls)),
        "holds": sum(row.system_holds for row in controls) if controls else None,
        "blind_ticks": sum(row.blind_ticks for row in controls) if controls else None,
    }


def _measured_rate_hz(record: RunRecord, episode_ids: list[str]) -> float | None:
    """Return the steps per second between first and last frame, by the stamps of their capture."""
    steps, elapsed_ns = 0, 0
    for episode_id in episode_ids:
        stored = record.stored(episode_id, only=("stamp_ns",))
        if stored is not None and stored.length > 1:
            stamps = stored.arrays["stamp_ns"]
            steps, elapsed_ns = steps + len(stamps) - 1, elapsed_ns + int(stamps[-1] - stamps[0])
    return _rounded(steps / elapsed_ns * 1e9) if elapsed_ns else None


def _learner(record: RunRecord) -> Figures:
    rows = record.updates()
    done: Sequence[EndRow | UpdateRow] = (of_kind(record.rows, EndRow) or rows)[-1:]
    rates = numbers(row.updates_per_s for row in rows)
    return {
        "updates": done[0].updates if done else None,
        "utd": _utd(record, rows, done[0]) if done else None,
        "utd_asked": next((row.utd for row in reversed(of_kind(record.rows, FitRow))), None),
        "updates_per_s": _rounded(float(np.median(rates))) if rates.size else None,
        "params_age_p99_s": _p99(numbers(row.params_age_s for row in record.controls(EpisodeKind.ONLINE))),
    }


def _critic(record: RunRecord) -> Figures:
    """Return what the critic knew of the newest episodes before it was trained on them, and the verdict it gives."""
    found = critic_figures(record.critic())
    verdict = judge(record.updates(), found)
    return {
        "episodes": found.episodes if record.rows else None,
        "corrections": found.corrections.asked,
        "corrections_share": _maybe(found.corrections.share),
        "own_steps": found.own.asked,
        "own_share": _maybe(found.own.share),
        "td_error": _maybe(found.td_error),
        "q_mean": _maybe(found.q_mean),
        "return_mean": _maybe(found.return_mean),
        "q_gradient_share": _maybe(verdict.q_share),
        "ask_ms": _maybe(found.ask_ms),
        "learned_from": verdict.learned_from.value,
        "learned_from_text": verdict.sentence,
    }


def _utd(record: RunRecord, rows: list[UpdateRow], done: EndRow | UpdateRow) -> float | None:
    """Return the updates per online step, those before the first online step not counted.

    How many these were is in the settings; without them the slope between the first and the last update row is taken.
    """
    before = _pretrain_updates(record)
    if before is not None:
        updates, steps = done.updates - before, done.env_steps
    elif rows:
        updates, steps = done.updates - rows[0].updates, done.env_steps - rows[0].env_steps
    else:
        return None
    return _rounded(updates / steps) if steps > 0 else None


def _pretrain_updates(record: RunRecord) -> int | None:
    counts = [row.pretrain_updates for row in of_kind(record.rows, FitRow) if row.pretrain_updates is not None]
    return counts[-1] if counts else None


def _replay(record: RunRecord) -> Figures:
    end, updates = of_kind(record.rows, EndRow), record.updates()
    if end:
        return {
            "transitions": end[-1].replay_transitions,
            "bytes_per_transition": _rounded(end[-1].replay_bytes_per_transition),
        }
    return {"transitions": updates[-1].replay if updates else None, "bytes_per_transition": None}


_INPUTS = {
    "task": "run.yaml",
    "seed": "run.yaml",
    "demos": "metrics.jsonl: fit row",
    "bc": "eval_bc.json",
    "policy": "eval_policy.json",
    "training": "metrics.jsonl: online episode rows",
    "reward": "metrics.jsonl: truth of online episodes, reward_fit row",
    "control": "<actor>.jsonl: control rows of online episodes",
    "control.rate_hz": "store/: frames of online episodes",
    "learner": "metrics.jsonl: update and end rows",
    "learner.params_age_p99_s": "<actor>.jsonl: control rows of online episodes",
    "critic": "metrics.jsonl: critic rows",
    "asking": "<actor>.jsonl: help rows of which it is known whether help was needed",
    "critic.q_gradient_share": "metrics.jsonl: update rows with q_gradient and imitation_gradient",
    "replay": "metrics.jsonl: end row",
    "memory_mb": "memory.json",
}
"""Figure, or group of figures -> where it comes from."""


def _missing(summary: Figures, record: RunRecord) -> list[str]:
    """Return one line per figure that is null, with the input it lacks, then what could not be read."""
    found = []
    for group, value in summary.items():
        for name, entry in value.items() if isinstance(value, dict) else (("", value),):
            key = f"{group}.{name}" if name else group
            if entry is None:
                found.append(f"{key}: {_reason(key, group, summary)}")
    return [*found, *record.problems]


def _reason(key: str, group: str, summary: Figures) -> str:
    audited = summary["reward"]["false_done"] is not None
    if audited and key == "reward.false_done_rate":
        return "no training episode failed"
    if audited and key == "reward.missed_rate":
        return "no training episode succeeded"
    if summary["critic"]["episodes"] and key == "critic.corrections_share":
        return f"no operator corrected in the newest {NEWEST} episodes"
    if summary["critic"]["episodes"] and key == "critic.own_share":
        return f"the policy ended none of the newest {NEWEST} episodes well alone"
    if summary["critic"]["episodes"] and key in ("critic.q_mean", "critic.return_mean"):
        return f"none of the newest {NEWEST} episodes ended by itself"
    if group in ("bc", "policy") and key.endswith("cycle_s") and summary[group]["episodes"]:
        return "no episode succeeded"
    return _INPUTS.get(key, _INPUTS[group])


def _get(row: Figures | None, key: str) -> Any:
    return None if row is None else row.get(key)


def _maybe(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _rounded(value: float) -> float:
    return round(float(value), 4)


def _p99(values: np.ndarray) -> float | None:
    return _percentile(values, 99)


def _percentile(values: np.ndarray, percent: float) -> float | None:
    return _rounded(float(np.percentile(values, percent))) if values.size else None
