"""`robot-stack reward eval` and `robot-stack reward audit`: how good a reward model is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robot_stack.cli.run_folder import find_folder, say_progress
from robot_stack.disk.durable import write_durable

if TYPE_CHECKING:
    from robot_stack.learner.reward.evaluation import Evaluated

TASK = "peg_insert"
"""The run whose cell and task synthetic episodes are of."""


def run(
    what: str,
    name: str | None = None,
    generated: bool = False,
    out: Path | None = None,
    episodes: int | None = None,
    seed: int = 0,
    every: int = 1,
    as_json: bool = False,
) -> int:
    """Evaluate a reward model on labelled episodes, or audit it in a run; returns the exit code.

    Raises:
        StackError: If there is nothing to evaluate.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported; more threads are slower here
    if what == "audit":
        return _audit(find_folder(name or ""), as_json)
    folder = None if generated else find_folder(name or "")
    found = _evaluated(folder, episodes, seed, every)
    path = out or (Path("reward_eval.json") if folder is None else folder / "reward_eval.json")
    title = "Reward model on synthetic episodes" if folder is None else f"Reward model of {folder.resolve().name}"
    result, page = _write(path, found, title)
    if as_json:
        print(json.dumps(result))
        return 0
    print(_summary(result))
    print(f"Figures: {path}")
    print(f"Report: {page}")
    print(f"Next: open it{'' if folder is None else f', or robot-stack reward audit {name}'}")
    return 0


def _evaluated(folder: Path | None, episodes: int | None, seed: int, every: int) -> Evaluated:
    from robot_stack.config.resolve import load_run
    from robot_stack.learner.host_memory import keep_freed_memory
    from robot_stack.learner.reward.evaluation import evaluate_generated, evaluate_run
    from robot_stack.learner.reward.synthetic import FULL

    keep_freed_memory()
    if folder is not None:
        return evaluate_run(folder, episodes=episodes, seed=seed, every=every, say=say_progress)
    wanted = FULL if episodes is None else episodes
    return evaluate_generated(load_run(TASK), episodes=wanted, seed=seed, every=every, say=say_progress)


def _write(path: Path, found: Evaluated, title: str) -> tuple[dict[str, Any], Path]:
    from reward_models.evaluate.document import document, table
    from robot_stack.report.reward_page import write_reward_page

    path.parent.mkdir(parents=True, exist_ok=True)
    result = document(found.report, fit_s=found.fit_s)
    for file, text in ((path, json.dumps(result, indent=2) + "\n"), (path.with_suffix(".csv"), table(found.report))):
        write_durable(file, text)
    page = write_reward_page(
        path.with_suffix(".html"), found.report, found.episodes, title=title, fit_s=found.fit_s, left_out=found.left_out
    )
    return result, page


def _summary(result: dict[str, Any]) -> str:
    about, done = result["sections"]["about"], result["sections"]["discrimination"]
    counts = about["episodes"]
    false_done, missed = done["false_done"], done["missed"]
    last = ", ".join(f"{name} {value:.2f}" for name, value in result["final_phi"].items() if value is not None)
    beaten = [name for name, better in result["beats_null"].items() if better]
    lines = [
        f"{about['model']}: {about['verdict']}, on {counts['scored']} episodes, {counts['success']} of them successes",
        f"  VOC {_number(result['voc_success'])}, reversed {_number(result['voc_reversed'])}, "
        f"error {_number(result['mae'])}, AUC {_number(result['auc'])}",
        f"  Φ of the last frame: {last}",
        f"  false done {false_done['count']} of {false_done['n']} (at most {100 * false_done['high']:.1f} %), missed "
        f"{missed['count']} of {missed['n']}",
        f"  beats {', '.join(beaten) or 'no null model'}; {'causal' if result['causal'] else 'reads the future'}; "
        f"{result['ms_per_frame']:.1f} ms a frame, {result['ms_per_frame_batched']:.2f} in a batch",
    ]
    lines += [
        f"  {kind.replace('_', ' ')}: false done {of['false_done']['count']} of {of['false_done']['n']}, last Φ "
        f"{_number(of['final_phi']['value'])}{', a kind it never saw' if of['unseen'] else ''}"
        for kind, of in result["sections"]["kinds"].items()
    ]
    lines += [
        f"  not met: {c['name']}: {c['found']}, {c['wanted']}"
        for c in result["sections"]["checks"]
        if c["passed"] is False
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _audit(folder: Path, as_json: bool) -> int:
    from robot_stack.report.audit_page import JSON, write_audit

    page = write_audit(folder)
    result = json.loads((folder / JSON).read_text())
    if as_json:
        print(json.dumps(result))
        return 0
    for group, found in result["opd"].items():
        false_done, missed = result["false_done"].get(group), result["missed"].get(group)
        words = (
            ""
            if false_done is None
            else (f", false done {false_done['count']} of {false_done['n']}, missed {missed['count']} of {missed['n']}")
        )
        print(
            f"{group}: {found['episodes']} episodes, highest Φ {_number(found['peak']['value'])}, directness "
            f"{_number(found['path']['value'])}, regret {_number(found['regret']['value'])}{words}"
        )
    print(f"Report: {page}")
    print("Next: open it")
    return 0
