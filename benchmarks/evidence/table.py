"""The evidence table: runs of a condition pooled over seeds, with intervals, as JSON, Markdown and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy.stats import t as student

from benchmarks.evidence.advantage import WAYS
from benchmarks.evidence.conditions import CONDITIONS
from benchmarks.evidence.targets import target_rows
from benchmarks.learning.comparison import Result
from benchmarks.learning.lockstep import LAST
from reward_models.metrics import wilson_interval

mpl.use("Agg")
from matplotlib import pyplot as plt

OF_ALL = "advantage_rank_correlation"
COLUMNS = (
    *("condition", "what", "minutes", "seeds", "success", "each seed", "cycle", "human steps"),
    *("operator", "robot", "episodes"),
)
LATER_SETTINGS: Mapping[str, Any] = {
    "layers": "hil_serl",
    "subset_mean": False,
    "bf16": True,
    "smooth_ticks": 1,
    "others": [],
    "stages": [],
    "marks_stages": False,
}
"""Settings that earlier results do not name, with the values that they had there."""


class MixedSettings(Exception):
    """Results that must not be pooled: they come from learners with different settings."""


def refuse_mixed(results: Sequence[Result]) -> None:
    """Refuse results whose settings differ where they must not.

    Raises:
        MixedSettings: If a condition has runs of several settings or lengths, an algorithm several defaults, or a task
            several trunks: conditions that began from other trunks do not stand side by side.
    """
    first: dict[str, Result] = {}
    for result in results:
        settings, condition = result["settings"], result["condition"]
        for what, part in {
            f"settings of {condition}": _settings,
            f"minutes of {condition}": _minutes,
            f"defaults of {settings['algorithm']}": _defaults,
            f"trunks of {settings.get('task', {}).get('name')}": _first_trunk,
        }.items():
            one = first.setdefault(what, result)
            if other := differences(part(one), part(result)):
                raise MixedSettings(
                    f"{what} are {other} in {one['condition']}, seed {one['seed']} at {one['commit']}, and "
                    f"{condition}, seed {result['seed']} at {result['commit']}, must be the same; measure again what "
                    "is older, in another --out"
                )


_settings, _minutes, _defaults = itemgetter("settings"), itemgetter("minutes"), itemgetter("defaults")


def _first_trunk(result: Result) -> dict[str, Any]:
    """Return how the trunk was trained that a run began with; what fits it again later may differ."""
    encoder = result["settings"].get("encoder", {})
    return {**encoder, "settings": {**encoder.get("settings", {}), "refit_at": None, "refit_steps": None}}


def differences(one: Any, other: Any, key: str = "") -> str:
    """The values that differ between two trees of plain values, `key: one | other`.

    A null may as well be absent, and so may a later setting with the value that it had before it was one.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        inner = (
            differences(
                *(each.get(name, LATER_SETTINGS.get(name)) for each in (one, other)), f"{key}.{name}".lstrip(".")
            )
            for name in sorted(one.keys() | other.keys())
        )
        return ", ".join(text for text in inner if text)
    return "" if one == other else f"{key}: {one!r} | {other!r}".removeprefix(": ")


def pooled(results: Sequence[Result]) -> dict[str, Any]:
    """The figures of one condition over its seeds: successes and cycles of all resets together."""
    won, resets = sum(r["success"] for r in results), sum(r["resets"] for r in results)
    cycles = [float(np.mean(r["cycles_s"])) for r in results if r["cycles_s"]]
    return {
        "success": round(won / resets, 4),
        "resets": resets,
        "wilson95": [round(limit, 4) for limit in wilson_interval(won, resets)],
        "by_seed": [round(r["success"] / r["resets"], 4) for r in results],
        "cycle_s": _mean(t for r in results for t in r["cycles_s"]),
        "cycle95_s": seeds_interval(cycles),
        "demonstration_cycle_s": _mean(_known(r["demonstration_cycle_s"] for r in results)),
        "human_share_first20": _mean(_known(r["human_share_first20"] for r in results)),
        "human_share_last20": _mean(_known(r["human_share_last20"] for r in results)),
        "operator_s": _mean(r["operator_s"] for r in results),
        "robot_s": _mean(r["robot_s"] for r in results),
        "minutes": results[0]["minutes"],
        "episodes": _mean(r["episodes"] for r in results),
        "seeds": [r["seed"] for r in results],
        "commits": sorted({r["commit"] for r in results}),
        "advantage": ranked(results),
    }


def seeds_interval(values: Sequence[float]) -> list[float] | None:
    """The 95 % interval of a mean of seeds, by Student's t; None for fewer than three, which tell nothing of it."""
    if len(values) < 3:
        return None
    middle, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    half = float(student.ppf(0.975, len(values) - 1)) * spread / np.sqrt(len(values))
    return [round(middle - half, 4), round(middle + half, 4)]


def ranked(results: Iterable[Result]) -> dict[str, Any] | None:
    """The rank correlation of Q's advantage with Monte-Carlo's: mean over runs, and each; None if none asked."""
    told = [r for r in results if r[OF_ALL] is not None and r[OF_ALL]["spearman"] is not None]
    if not told:
        return None
    return {
        "mean": _mean(r[OF_ALL]["spearman"] for r in told),
        "by_seed": {str(r["seed"]): round(r[OF_ALL]["spearman"], 4) for r in told},
        "ceiling": _mean(r[OF_ALL]["ceiling"] for r in told),
        "by_nearness": _by_nearness([r[OF_ALL].get("by_nearness") for r in told]),
        "states": sum(r[OF_ALL]["states"] for r in told),
        "states_that_differ": sum(r[OF_ALL]["states_that_differ"] for r in told),
    }


def _by_nearness(found: Sequence[float | None]) -> str:
    """Return the mean of what was measured, in words; runs of before were not asked."""
    known = [value for value in found if value is not None]
    return f"{_mean(known):.2f}" if known else "not asked"


def document(results: Sequence[Result]) -> dict[str, Any]:
    """evidence.json: each condition pooled, those of other operators under the operator's name, and all runs.

    Raises:
        MixedSettings: See `refuse_mixed`.
    """
    refuse_mixed(results)
    found: dict[str, Any] = {}
    for name in CONDITIONS:
        own = [r for r in results if r["condition"] == name]
        if own:
            operator, dot, short = name.rpartition(".")
            (found.setdefault(operator, {}) if dot else found)[short] = pooled(own)
    critic = found.get("full", {}).get("advantage")
    return {**found, OF_ALL: None if critic is None else critic["mean"], "runs": list(results)}


def table(results: Sequence[Result], picture: str = "../docs/images/evidence.png") -> str:
    """EVIDENCE.md, which shows a picture at a path from its own folder."""
    lines = [
        "# Evidence",
        "",
        "Made by `make bench-evidence`: peg insertion in simulation; minutes are the robot time of online training.",
        "All conditions of an operator and a seed have the same demonstrations and trunk. Success without an operator",
        "on the same held-out resets, pooled over the seeds, with Wilson's 95 % interval as if each seed had others,",
        "which is too narrow; how far the seeds lie apart stands beside it. Cycle is the mean time of a success, with",
        "the 95 % interval of the seeds (Student's t) where there are three or more. Human steps are those of the last",
        f"{LAST} episodes.",
        "Operator and robot time are means over the seeds, demonstrations included.",
        *_trunk_words(results),
        "",
        _line(COLUMNS),
        _line(["---"] * len(COLUMNS)),
    ]
    for name, condition in CONDITIONS.items():
        own = [r for r in results if r["condition"] == name]
        if own:
            lines.append(_row(name, condition.words, pooled(own)))
    lines += _rank_rows(results)
    lines += target_rows(document(results))
    commits = ", ".join(sorted({r["commit"] for r in results}))
    return "\n".join([*lines, "", f"Commits: {commits}.", "", f"![Success and cycle]({picture})", ""])


def _trunk_words(results: Sequence[Result]) -> list[str]:
    """Return how the trunk of all runs was trained, as a line; none where no run tells."""
    settings = results[0]["settings"].get("encoder", {}).get("settings", {}) if results else {}
    rate = settings.get("learning_rate")
    return [] if rate is None else [f"The trunk was trained at a learning rate of {rate:g}."]


def _rank_rows(results: Sequence[Result]) -> list[str]:
    """The section on the critics' order of actions; empty where none was asked."""
    rows = []
    for name in CONDITIONS:
        critic = ranked(r for r in results if r["condition"] == name)
        if critic is not None:
            seeds = ", ".join(f"{value:.2f} (seed {seed})" for seed, value in critic["by_seed"].items())
            rows.append(
                f"| {name} | {critic['mean']:.2f} | {seeds} | {critic['by_nearness']} | {critic['ceiling']:.2f} | "
                f"{critic['states_that_differ']} of {critic['states']} |"
            )
    if not rows:
        return []
    return [
        "",
        "Does the critic know which action is better? Rank correlation of Q with the return of the simulator over 16",
        "actions a state (chunks of them, where the critic values chunks), in those states whose returns differ. The",
        f"returns are means over {WAYS} ways to the end. Beside it stand what the order by nearness to the policy's",
        "own action comes to, which knows nothing of the task, and what a critic reaches that knows the mean over all",
        "ways.",
        "",
        "| condition | mean | each seed | by nearness | could reach | states |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]


def _row(name: str, words: str, figures: Mapping[str, Any]) -> str:
    low, high = figures["wilson95"]
    cycle = "-" if figures["cycle_s"] is None else f"{figures['cycle_s']:.1f} s"
    if figures["cycle95_s"] is not None:
        cycle += f" ({figures['cycle95_s'][0]:.2f} to {figures['cycle95_s'][1]:.2f})"
    human = "-" if figures["human_share_last20"] is None else f"{figures['human_share_last20']:.1%}"
    each = " ".join(f"{100 * share:.0f}" for share in figures["by_seed"])
    return _line(
        [
            name,
            words,
            f"{figures['minutes']:g}",
            len(figures["seeds"]),
            f"{figures['success']:.1%} ({low:.1%} to {high:.1%})",
            each,
            cycle,
            human,
            f"{figures['operator_s']:.0f} s",
            f"{figures['robot_s']:.0f} s",
            f"{figures['episodes']:.0f}",
        ]
    )


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw success and cycle of each condition with their intervals."""
    names = [name for name in CONDITIONS if any(r["condition"] == name for r in results)]
    figures = [pooled([r for r in results if r["condition"] == name]) for name in names]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 1.2 + 0.32 * len(names)), dpi=110, sharey=True, layout="constrained"
    )
    for place, (name, each) in enumerate(zip(names, figures, strict=True)):
        colour = f"C{('half_skilled' in name) + 2 * ('inattentive' in name)}"
        _dot(left, place, each["success"], each["wilson95"], colour)
        left.plot(each["by_seed"], [place] * len(each["by_seed"]), "|", color=colour, alpha=0.6)
        if each["cycle_s"] is not None:
            _dot(right, place, each["cycle_s"], each["cycle95_s"] or [each["cycle_s"]] * 2, colour)
    left.set(xlabel="success on held-out resets", xlim=(0, 1.02), yticks=range(len(names)), yticklabels=names)
    left.invert_yaxis()
    right.set(xlabel="time of a success [s]")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path)
    plt.close(figure)


def _dot(axes: Any, place: int, value: float, interval: Sequence[float], colour: str) -> None:
    axes.plot(interval, [place, place], color=colour)
    axes.plot([value], [place], "o", color=colour)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(float(np.mean(listed)), 4) if listed else None
