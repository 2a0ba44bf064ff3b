"""The headline of a report, and what its figures advise: what one would say of a run in a talk, and do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from robot_stack.report.learned_from import CLAIMS, LearnedFrom
from robot_stack.report.summary import ENDS
from robot_stack.report.targets import DECLARED_FALSE, HUMAN_LAST, MISSED, fewest_updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A headline in two parts.

    Attributes:
        result: The policy's successes with their interval, "" where it was not evaluated.
        rest: What that is to be held against, and what it cost.
    """

    result: str
    rest: str


def headline(summary: dict[str, Any]) -> Headline:
    """Return the headline of a run's summary; what is not known is left out."""
    policy, training = summary["policy"], summary["training"]
    result = ""
    if policy["episodes"]:
        low, high = policy["wilson95"]
        result = f"{policy['success']} of {policy['episodes']} ({100 * low:.0f} to {100 * high:.0f} %)"
    parts = []
    if policy["cycle_s"] is not None:
        parts.append(f"{policy['cycle_s']:.1f} s a cycle")
    if summary["bc"]["episodes"]:
        cycle = "" if summary["bc"]["cycle_s"] is None else f" in {summary['bc']['cycle_s']:.1f} s"
        parts.append(f"behaviour cloning {summary['bc']['success']} of {summary['bc']['episodes']}{cycle}")
    if training["robot_time_s"] is not None:
        minutes, share = training["robot_time_s"] / 60, training["human_share"]
        alone = "" if share is None else f", {minutes * (1 - share - (training['base_share'] or 0)):.0f} of them alone"
        parts.append(f"{minutes:.0f} min of robot time{alone}")
    claim = CLAIMS[LearnedFrom(summary["critic"]["learned_from"])]
    return Headline(result=result, rest=f"{' · '.join(parts)}. {claim}." if parts else f"{claim}.")


def advice(summary: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each figure that asks for something to be done: what was seen, what to do."""
    training, reward, learner = summary["training"], summary["reward"], summary["learner"]
    if training["human_share_last20"] is not None and training["human_share_last20"] >= HUMAN_LAST:
        last = min(ENDS, training["episodes"] or ENDS)
        yield (
            f"An operator still drove {100 * training['human_share_last20']:.0f} % of the last {last} episodes: go on "
            "with online training."
        )
    if reward["missed_rate"] is not None and reward["missed_rate"] > MISSED:
        yield (
            f"The reward model missed {100 * reward['missed_rate']:.0f} % of the successes, which somebody else had to "
            "say: give verdicts on failures too, and let it be fitted again (docs/reward-models.md)."
        )
    if reward["false_done_rate"] is not None and reward["false_done_rate"] > DECLARED_FALSE:
        yield (
            f"The reward model called {reward['false_done']} of {reward['episodes_failed']} failures a success: raise "
            "the task's success.threshold, or narrow its gate."
        )
    made, asked = learner["utd"], learner["utd_asked"]
    if made is not None and asked is not None and made < fewest_updates(asked):
        yield (
            f"The learner made {made:.1f} updates per step, {asked:g} are asked for: free this machine, use a GPU, or "
            "run the learner on another machine (docs/gpu.md)."
        )
    if summary["critic"]["learned_from"] == LearnedFrom.GUESSES:
        yield "The policy follows a critic that guesses: raise bc_weight_end, or train longer before imitation fades."
    if summary["control"]["holds"]:
        yield "The cell held without being asked to: the reasons are below, under Safety and faults."
