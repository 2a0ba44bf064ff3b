"""What the evidence is held against: the targets, each with what was measured and whether it is met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

POINTS, HALF_SKILLED_POINTS = 0.10, 0.20
"""Of success, by which reward must add to corrections; of an operator who is half as skilled more."""
SHORTER = 1.5
"""Or the factor by which it must shorten the cycle."""
WITHOUT_IMITATION = 0.90
CYCLE_OF_DEMONSTRATIONS = 0.6
RANK_CORRELATION = 0.6
SUCCESS = 0.95
"""What a policy must reach, within the interval, whose cycle is held against the demonstrations'. One that does only
the easy resets is quick."""


class Target(NamedTuple):
    """A target: what is compared, what is wanted, what was measured, and whether that is met."""

    what: str
    wanted: str
    measured: str
    met: bool


def targets(found: Mapping[str, Any]) -> Iterator[Target]:
    """Yield the targets of which something was measured; `found` is what `table.document` made."""
    half = found.get("half_skilled", {})
    for words, group, whole, other, points, or_shorter in (
        ("whole against without Q", found, "full", "without_q", POINTS, True),
        ("whole against HG-DAgger", found, "full", "hg_dagger", POINTS, True),
        ("whole against without Q, operator half as skilled", half, "full", "without_q", HALF_SKILLED_POINTS, False),
        ("Q-chunking against itself without Q", found, "qc", "qc_without_q", POINTS, True),
        (
            "Q-chunking against itself without Q, operator half as skilled",
            *(half, "qc", "qc_without_q", HALF_SKILLED_POINTS, False),
        ),
    ):
        if whole in group and other in group and group[whole]["minutes"] == group[other]["minutes"]:
            yield _better(words, group[whole], group[other], points, or_shorter=or_shorter)
    if "imitation_weight_0" in found:
        success = found["imitation_weight_0"]["success"]
        wanted = f"{WITHOUT_IMITATION:.0%} of success"
        yield Target("imitation weight 0", wanted, f"{success:.1%}", success >= WITHOUT_IMITATION)
    full = found.get("full")
    if full is not None and full["cycle_s"] is not None and full["demonstration_cycle_s"] is not None:
        share = full["cycle_s"] / full["demonstration_cycle_s"]
        wanted = f"at most {CYCLE_OF_DEMONSTRATIONS:g} of the demonstrations'"
        met = share <= CYCLE_OF_DEMONSTRATIONS and full["wilson95"][1] >= SUCCESS
        yield Target("cycle at the end", wanted, f"{share:.2f}", met)
    ranks = found.get("advantage_rank_correlation")
    if ranks is not None:
        wanted = f"rank correlation of at least {RANK_CORRELATION:g}"
        yield Target("Q's order of actions against the simulator's", wanted, f"{ranks:.2f}", ranks >= RANK_CORRELATION)


def _better(
    words: str, whole: Mapping[str, Any], other: Mapping[str, Any], points: float, *, or_shorter: bool
) -> Target:
    """Whether the whole is better by points of success, or no worse and quicker, with intervals that are apart."""
    gain = whole["success"] - other["success"]
    met = gain >= points - 1e-9 and whole["wilson95"][0] > other["wilson95"][1]
    wanted, measured = f"{100 * points:.0f} points of success", f"{100 * gain:+.1f} points"
    if or_shorter:
        wanted += f", or cycles {SHORTER:g} times shorter"
        if whole["cycle_s"] is not None and other["cycle_s"] is not None:
            factor = other["cycle_s"] / whole["cycle_s"]
            known = whole["cycle95_s"] is not None and other["cycle95_s"] is not None
            no_worse = whole["wilson95"][1] >= other["wilson95"][0]
            met |= no_worse and known and factor >= SHORTER and whole["cycle95_s"][1] < other["cycle95_s"][0]
            measured += f", cycles {factor:.2f} times shorter"
    return Target(words, f"{wanted}; intervals apart", measured, met)


def target_rows(found: Mapping[str, Any]) -> list[str]:
    """The targets as a table of Markdown; empty where nothing was measured that one is about."""
    told = list(targets(found))
    if not told:
        return []
    rows = [f"| {t.what} | {t.wanted} | {t.measured} | {'met' if t.met else 'missed'} |" for t in told]
    return ["", "| target | wanted | measured | |", "| --- | --- | --- | --- |", *rows]
