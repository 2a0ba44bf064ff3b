"""Targets of a run's figures, and whether each is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from robot_stack.report.run_folder import RunRecord

KB_PER_TRANSITION = 105.0
"""Allowed in replay with two 128x128 cameras; scaled by the pixels that the cell really has."""
REFERENCE_PIXELS = 2 * 128 * 128
CORRECTIONS_TARGET, OWN_TARGET = 0.8, 0.95
"""Share of corrections that Q ranks above the proposal, and of own successful actions above random ones."""
OF_ASKED, HUMAN_LAST = 0.5, 0.03
"""Share of the updates asked for that must be made, and share of human steps in the last 20 episodes at most."""
MISSED, DECLARED_FALSE = 0.3, 0.05
"""Share of successes that the reward model misses, and of failures that it declares one, above which to mend it."""
SCORED = {"policy": "the policy", "bc": "behaviour cloning"}
"""Evaluations of a summary, and whose they are."""
WALL_MIN, QUICK_WALL_MIN = 45, 15
"""All phases take at most so long, and so long where every phase is only gone through."""
NOTHING = "-"
"""Shown where nothing can be said, since there was no such step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the summary box.

    Attributes:
        name: What was measured.
        value: As shown, with its unit; "not known" if it could not be measured.
        target: As shown; "" where there is none.
        met: None where there is no target or no value.
    """

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def figures(summary: dict[str, Any], record: RunRecord) -> list[Figure]:
    """Return the figures in the order in which a reader asks for them.

    A quick run has targets of its own: what was learned is not judged, and all of it must have taken minutes.
    """
    training, reward, learner = summary["training"], summary["reward"], summary["learner"]
    wall_min = QUICK_WALL_MIN if record.quick else WALL_MIN
    return [
        *_of_learning(
            record,
            _success("success of the policy", summary["policy"], "at least 95 %", lambda rate: rate >= 0.95),
            *(
                _success(f"success of the policy in {task_id}", own, "at least 90 %", lambda rate: rate >= 0.90)
                for task_id, own in summary["policy"].get("tasks", {}).items()
            ),
            _success("success of behaviour cloning", summary["bc"], "below 70 %", lambda rate: rate < 0.70),
        ),
        _figure("cycle time of the policy", summary["policy"]["cycle_s"], "{:.1f} s"),
        *(_score(who, summary[key]["score"]) for key, who in SCORED.items() if "score" in summary[key]),
        _figure("demonstrations", summary["demos"]["episodes"], "{}", "at most 20", lambda n: n <= 20),
        _figure("training episodes", training["episodes"], "{}", "at most 250", lambda n: n <= 250),
        _figure("robot time", _over(training["robot_time_s"], 60), "{:.1f} min", "at most 25 min", lambda m: m <= 25),
        _figure("wall time of all phases", _wall_min(record), "{:.1f} min", f"at most {wall_min} min",
                lambda m: m <= wall_min),
        *_of_learning(
            record,
            _figure("human steps, first 20 episodes", _over(training["human_share_first20"], 0.01), "{:.1f} %",
                    "above 15 %", lambda p: p > 15),
            _figure("human steps, last 20 episodes", _over(training["human_share_last20"], 0.01), "{:.1f} %",
                    "below 3 %", lambda p: p < 100 * HUMAN_LAST),
        ),
        _false_done(reward),
        _figure("successes the model missed", _over(reward["missed_rate"], 0.01), "{:.1f} %"),
        _figure("VOC on held-out demonstrations", reward["voc_heldout"], "{:.3f}"),
        _figure("VOC of the clock, which reads no image", reward["voc_clock"], "{:.3f}"),
        *_of_learning(record, *_critic(summary["critic"])),
        *_control(summary["control"], summary["policy"]["observation_age_ms"]),
        _figure("params age p99", learner["params_age_p99_s"], "{:.2f} s", "below 5 s", lambda s: s < 5),
        *_of_learning(record, _updates(learner["utd"], learner["utd_asked"])),
        _figure("updates per second", learner["updates_per_s"], "{:.0f} /s"),
        _bytes(summary["replay"]["bytes_per_transition"], record),
        _figure("memory of all processes, peak", _over(summary["memory_mb"], 1000), "{:.2f} GB", "below 6 GB",
                lambda gb: gb < 6),
    ]  # fmt: skip


def _of_learning(record: RunRecord, *lines: Figure) -> list[Figure]:
    """Return figures of what was learned, without their targets where the run was too short to learn."""
    return [replace(line, target="", met=None) for line in lines] if record.quick else list(lines)


def _critic(critic: dict[str, Any]) -> list[Figure]:
    return [
        _ranked("corrections that Q ranks above the proposal", critic["corrections"], critic["corrections_share"],
                CORRECTIONS_TARGET),
        _ranked("own successful actions that Q ranks above random ones", critic["own_steps"], critic["own_share"],
                OWN_TARGET),
        _critic_figure("TD error, before training on an episode", critic["td_error"], "{:.3f}"),
        _critic_figure("share of Q in the actor's gradient", _over(critic["q_gradient_share"], 0.01), "{:.0f} %"),
        _critic_figure("update loop held up by these questions, longest", critic["ask_ms"], "{:.0f} ms"),
    ]  # fmt: skip


def fewest_updates(asked: float) -> float:
    """Return how many updates an online step must at least have got, of those that the run asks for."""
    return OF_ASKED * asked


def _updates(made: float | None, asked: float | None) -> Figure:
    name, form = "updates per environment step", "{:.2f}"
    if asked is None:
        return _figure(name, made, form)
    fewest = fewest_updates(asked)
    return _figure(name, made, form, f"at least {fewest:g}", lambda r: r >= fewest)


def _critic_figure(name: str, value: float | None, form: str) -> Figure:
    return Figure(name=name, value=NOTHING if value is None else form.format(value))


def _ranked(name: str, steps: int | None, share: float | None, target: float) -> Figure:
    if share is None:
        return Figure(name=name, value=NOTHING)
    value = f"{100 * share:.0f} % of {steps} steps"
    return Figure(name=name, value=value, target=f"at least {100 * target:.0f} %", met=share >= target)


def _control(control: dict[str, Any], evaluation_age_ms: float | None) -> list[Figure]:
    return [
        _figure("control rate, measured", control["rate_hz"], "{:.2f} Hz"),
        _figure("tick jitter p99", control["jitter_p99_ms"], "{:.1f} ms", "below 20 ms", lambda ms: ms < 20),
        _figure("observation age, median", control["observation_age_p50_ms"], "{:.0f} ms"),
        _figure("observation age in the evaluation", evaluation_age_ms, "{:.0f} ms"),
        _figure("observation age p99", control["observation_age_p99_ms"], "{:.1f} ms", "below 60 ms",
                lambda ms: ms < 60),
        _figure("ticks in HOLD that no operator asked for", control["holds"], "{}", "0", lambda n: n == 0),
    ]  # fmt: skip


def _figure(name: str, value: Any, form: str, target: str = "", rule: Callable[[float], bool] | None = None) -> Figure:
    if value is None:
        return Figure(name=name, value="not known", target=target)
    return Figure(name=name, value=form.format(value), target=target, met=rule(value) if rule else None)


def _success(name: str, evaluation: dict[str, Any], target: str, rule: Callable[[float], bool]) -> Figure:
    if not evaluation["episodes"]:
        return Figure(name=name, value="not known", target=target)
    low, high = evaluation["wilson95"]
    text = f"{evaluation['success']} of {evaluation['episodes']} ({100 * low:.0f} to {100 * high:.0f} %)"
    return Figure(name=name, value=text, target=target, met=rule(evaluation["success"] / evaluation["episodes"]))


def _score(who: str, score: dict[str, Any]) -> Figure:
    parts = ", ".join(f"{name} {points:.1f}" for name, points in score["parts"].items())
    return Figure(name=f"score of {who} as an insertion", value=f"{score['mean']:.1f} of {score['most']:.0f} ({parts})")


def _false_done(reward: dict[str, Any]) -> Figure:
    name = "failures declared a success"
    if reward["false_done"] is None:
        return Figure(name=name, value="not known")
    low, high = reward["false_done_wilson95"]
    text = f"{reward['false_done']} of {reward['episodes_failed']} ({100 * low:.0f} to {100 * high:.0f} %)"
    return Figure(name=name, value=text)


def _bytes(per_transition: float | None, record: RunRecord) -> Figure:
    limit = KB_PER_TRANSITION
    note = " (two 128x128 cameras)"
    if record.resolved is not None:
        cameras = record.resolved.spec().cameras
        limit *= sum(camera.height_px * camera.width_px for camera in cameras) / REFERENCE_PIXELS
        sizes = ", ".join(f"{camera.name} {camera.width_px}x{camera.height_px}" for camera in cameras)
        note = f" ({sizes})"
    name = "replay per transition"
    return _figure(name, _over(per_transition, 1000), "{:.1f} KB", f"at most {limit:.1f} KB{note}",
                   lambda kb: kb <= limit)  # fmt: skip


def _wall_min(record: RunRecord) -> float | None:
    return sum(record.phases.values()) / 60 if record.phases else None


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
