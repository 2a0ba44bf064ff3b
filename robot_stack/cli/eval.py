"""`robot-stack eval RUN`: the saved policy on held-out resets, no operator, no noise."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robot_stack.cli.run_folder import run_and_policy
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import check_writable, write_durable
from robot_stack.runs.beginning import command_line
from robot_stack.runs.evaluation import counted_before
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.event import LabelSource
from robot_stack.types.params import Params


def run(
    name: str,
    episodes: int | None = None,
    policy: str = "policy",
    judge: str = LabelSource.TRUTH,
    robustness: bool = False,
    as_json: bool = False,
) -> int:
    """Evaluate a saved policy, print its success rate and keep it for the report; returns the exit code.

    What a success model judged is not kept: it ends episodes that the simulator would let go on. Nor are fewer episodes
    than were counted of the same policy before.

    Args:
        name: Folder of a run, or its name under runs/.
        episodes: Held-out resets; default: as many as the run says.
        policy: Which of the run's policies, by the name of its file; "base": its base policy, which needs no training.
        judge: Who says that the task is done: the simulator, or the run's success model, as on a real cell.
        robustness: Print a table instead: success where the scene is not as in training, each time `episodes` of them.
        as_json: Print the summary as JSON instead of a sentence; progress goes to stderr either way.

    Raises:
        StackError: If the run has no such policy or no trusted success model, cannot be evaluated here, or its folder
            takes no file.
    """
    resolved, folder, path = run_and_policy(name, policy)
    kept = RunPaths(folder).robustness(policy) if robustness else RunPaths(folder).evaluation(policy)
    if robustness or judge != LabelSource.MODEL:
        check_writable(kept)

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported; more threads are slower here
    from robot_stack.learner.reward.success_model import run_success_model
    from robot_stack.rollout.evaluate import evaluate, training_age_s
    from robot_stack.rollout.params_file import load_params

    params = None if path is None else load_params(path)
    wanted = episodes if episodes is not None else resolved.run.training.eval_episodes
    if robustness:
        if judge == LabelSource.MODEL:
            raise ConfigError("judge is 'model', must be 'truth' with --robustness, whose table counts what is so")
        return _table(resolved, folder, params, wanted, kept, name=policy, as_json=as_json)

    def say(number: int, success: bool) -> None:
        print(f"episode {number} of {wanted}: {'success' if success else 'failure'}", file=sys.stderr, flush=True)

    age_s = training_age_s(resolved, folder)
    model = run_success_model(folder, resolved) if judge == LabelSource.MODEL else None
    found = evaluate(resolved, params, wanted, say, observation_age_s=age_s, judge=model)
    version = None if params is None else params.version
    counted = counted_before(kept, version)
    summary = found.summary()
    if as_json:
        print(json.dumps({"run": folder.name, "policy": policy, **summary}))
        if model is None and counted <= wanted:
            found.write(kept, version)
        return 0
    low, high = summary["wilson95"]
    cycle = f", {summary['cycle_s']:.1f} s each" if summary["cycle_s"] is not None else ""
    print(
        f"{policy}: {summary['success']} of {summary['episodes']} succeeded{cycle} "
        f"(95 % interval {100 * low:.0f} to {100 * high:.0f} %); "
        f"observations {summary['observation_age_ms']:.0f} ms old"
    )
    for task_id, own in summary.get("tasks", {}).items():
        low, high = own["wilson95"]
        print(f"{task_id}: {own['success']} of {own['episodes']} (95 % interval {100 * low:.0f} to {100 * high:.0f} %)")
    if "milestones" in summary:
        reached = ", ".join(f"{name}: {count}" for name, count in summary["milestones"].items())
        print(f"milestones reached, of {summary['episodes']}: {reached}")
    if "score" in summary:
        print(_scored(summary["score"]))
    if model is not None:
        print(_judged(summary["success_model"], summary["episodes"]))
    elif counted <= wanted:
        found.write(kept, version)
        print(f"Kept in {kept}")
    else:
        print(f"Not kept: {kept} counts {counted} episodes of this policy")
    print(f"Next: {command_line('report', name)}")
    return 0


def _table(
    resolved: ResolvedRun, folder: Path, params: Params | None, episodes: int, kept: Path, *, name: str, as_json: bool
) -> int:
    """Print the table of robustness row by row, and keep it in a file: a row that counts more of this policy stays."""
    from robot_stack.rollout.evaluate import evaluate_held_out
    from robot_stack.workcell.variations import rows, words

    version = None if params is None else params.version
    found, now = _rows_before(kept, version), dict[str, Any]()
    about = {"run": folder.name, "policy": name, "params_version": version}
    if not as_json:
        print("| varied | success (95 % interval) | cycle |\n| --- | --- | --- |", flush=True)
    for row, tested in rows(resolved).items():
        summary = evaluate_held_out(resolved, folder, params, tested, episodes).summary()
        now[row] = {"varied": words(resolved, tested), **summary}
        if not as_json:
            print(_row(now[row]), flush=True)
        before = found.get(row, now[row])
        if before["varied"] != now[row]["varied"] or before["episodes"] <= episodes:
            found[row] = now[row]
        elif not as_json:
            print(f"Not kept: {kept} counts {before['episodes']} episodes of this row and policy", flush=True)
        write_durable(kept, json.dumps({**about, "rows": found}))
    print(json.dumps({**about, "rows": now}) if as_json else f"Kept in {kept}")
    return 0


def _rows_before(kept: Path, version: int | None) -> dict[str, Any]:
    """Return the rows that were measured before of the same parameters; none where nothing says of which they are."""
    try:
        said = json.loads(kept.read_text())
        whole = all(isinstance(each["episodes"], int) and each["varied"] for each in said["rows"].values())
        return dict(said["rows"]) if whole and said["params_version"] == version else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _row(found: Mapping[str, Any]) -> str:
    low, high = found["wilson95"]
    cycle = "-" if found["cycle_s"] is None else f"{found['cycle_s']:.1f} s"
    counted = f"{found['success']} of {found['episodes']} ({100 * low:.0f} to {100 * high:.0f} %)"
    return f"| {found['varied']} | {counted} | {cycle} |"


def _scored(found: Mapping[str, Any]) -> str:
    """Return in a sentence how the episodes are scored as insertions, part by part."""
    parts = ", ".join(f"{name} {points:.1f}" for name, points in found["parts"].items())
    return f"score {found['mean']:.1f} of {found['most']:.0f} in the mean: {parts}"


def _judged(found: Mapping[str, Any], episodes: int) -> str:
    """Return in a sentence what the success model made of the episodes, beside the truth."""
    low, high = found["false_done_wilson95"]
    delay = f", {found['delay_s']:.1f} s after they were done (median)" if found["delay_s"] is not None else ""
    return (
        f"success model: declared {found['declared']} of {episodes}{delay}; {found['false_done']} of them falsely "
        f"(95 % interval of all episodes {100 * low:.0f} to {100 * high:.1f} %); missed {found['missed']} of "
        f"{found['done']} that were done"
    )
