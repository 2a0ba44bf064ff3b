"""The checks that decide whether a model may be used: gates on dangerous faults, and the clock it must beat."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from reward_models.evaluate.accuracy import AGAINST, Accuracy, Discrimination
from reward_models.evaluate.axioms import Axioms
from reward_models.evaluate.nulls import Null

FALSE_DONE, MISMATCH, HOLD, AUC = 0.05, 0.2, 0.02, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition that a model must pass to be used.

    Attributes:
        name: What is checked.
        found: In words.
        wanted: In words.
        passed: None if these episodes cannot tell.
    """

    name: str
    found: str
    wanted: str
    passed: bool | None


def checks(
    found: Discrimination, by_class: Mapping[str, Accuracy], axioms: Axioms, nulls: Mapping[str, Null]
) -> tuple[Check, ...]:
    """Check all conditions, in the order in which a reader wants to see them."""
    false_done, mismatch = found.false_done, by_class.get("mismatch")
    rows = [
        _beats_clock(nulls["clock"]),
        Check(
            name="false done",
            found=f"{false_done.count} of {false_done.n}, at most {100 * false_done.high:.1f} %",
            wanted=f"upper limit below {100 * FALSE_DONE:.0f} %",
            passed=false_done.high < FALSE_DONE if false_done.n else None,
        ),
        _below("Φ under other words", mismatch.final_phi.value if mismatch else float("nan"), MISMATCH),
        _below("Φ while nothing happens", axioms.hold_change.value, HOLD, "|ΔΦ| "),
        Check(
            name="success from the rest",
            found=f"AUC {found.auc.value:.3f}" if found.auc.n else "not known",
            wanted=f"above {AUC}",
            passed=found.auc.value > AUC if found.auc.n else None,
        ),
        Check(
            name="reads no future",
            found=f"changed by {axioms.future_change:.2g}",
            wanted="nothing before an edit changes",
            passed=axioms.causal,
        ),
    ]
    return tuple(rows)


def _beats_clock(clock: Null) -> Check:
    beaten = [name for name, better in clock.beaten_on.items() if better]
    lost = [name for name in clock.beaten_on if name not in beaten]
    unknown = [name for name in AGAINST if name not in clock.beaten_on]
    parts = (("on", beaten), ("not on", lost), ("too few of", unknown))
    return Check(
        name="beats the clock",
        found="; ".join(f"{words} {', '.join(names)}" for words, names in parts if names),
        wanted=f"on {', '.join(AGAINST)}",
        passed=False if lost else None if unknown else True,
    )


def _below(name: str, value: float, limit: float, what: str = "") -> Check:
    known = not math.isnan(value)
    return Check(
        name=name,
        found=f"{what}{value:.3f}" if known else "not known",
        wanted=f"below {limit}",
        passed=value < limit if known else None,
    )
