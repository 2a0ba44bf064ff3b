"""One-shot adaptation of the embedded reward model to a changed scene, beside the model as it was and a full fit.

Run: python -m benchmarks.learning.adapt_reward [--quick] [--scene NAME] [--seed N]

A model is fitted on 12 demonstrations at the table of the dry run. Then the scene changes: a dark table, a white one,
or half of the light. The model is adapted by one demonstration of the changed scene, with or without those of the old
one, and everything is evaluated on other episodes of the changed scene (and of the old one): the error of Φ on
successes, and what the cell's own rule calls done.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from reward_models.evaluate.judge import judge
from reward_models.live import find_live
from reward_models.progress.model import ProgressModel
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.adaptation import adapt
from robot_stack.learner.reward.embedded import EmbeddedModel, fit_embedded, scored_episode
from robot_stack.learner.reward.evaluation import DEMOS, done_rule
from robot_stack.learner.reward.synthetic import build_maker, labelled
from sim.episodes import GeneratedEpisode
from sim.world import World

COUNTS = {
    "success": 12, "regress_recover": 4, "drop": 6, "near_miss": 6, "stall": 6, "partial": 6,
    "empty_hand": 6, "missing": 6,
}  # fmt: skip
TABLES = {"dark table": (0.12, 0.11, 0.10, 1.0), "white table": (0.95, 0.95, 0.93, 1.0)}
DIM = 0.5
OLD = "as it was"


def generate(resolved: ResolvedRun, scene: str, counts: dict[str, int], seed: Sequence[int]) -> list[GeneratedEpisode]:
    """Make synthetic episodes in a scene, the same motions in each."""
    maker, senses = build_maker(resolved)
    if scene in TABLES:
        maker._world.model.geom("table").rgba = TABLES[scene]
    if scene == "half the light":
        _dim(maker._world)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    seeds = np.random.SeedSequence(seed).generate_state(len(kinds))
    try:
        return [maker.make(kind, int(own)) for kind, own in zip(kinds, seeds, strict=True)]
    finally:
        senses.close()


def _dim(world: World) -> None:
    """Halve every light after each reset, which draws them anew."""
    reset, model = world.reset, world.model
    model.vis.headlight.ambient[:] *= DIM

    def dimmed(seed: int) -> None:
        reset(seed)
        model.light_diffuse[:] *= DIM
        model.vis.headlight.diffuse[:] *= DIM

    world.reset = dimmed  # type: ignore[method-assign]


def figures(model: EmbeddedModel, episodes: Sequence[GeneratedEpisode], shown: GeneratedEpisode, rule: object) -> dict:
    """Judge a model on episodes: error of Φ on successes, last Φ by kind, false done and missed."""
    judged = [judge(model, episode, rule) for episode in labelled(episodes, shown=shown)]  # type: ignore[arg-type]
    won, lost = [one for one in judged if one.success], [one for one in judged if not one.success]
    plain = [one for one in won if one.kind == "success"]
    return {
        "error": float(np.mean([np.abs(one.phi - one.truth).mean() for one in plain])),
        "final_success": float(np.mean([one.final for one in plain])),
        "final_failure": float(np.mean([one.final for one in lost])),
        "false_done": [sum(one.latched is not None for one in lost), len(lost)],
        "missed": [sum(one.latched is None for one in won), len(won)],
    }


def measure(scene: str, seed: int, quick: bool, say: Callable[[str], None]) -> dict:
    """Measure one changed scene; name of the model -> its figures."""
    words = ["reward.settings.steps=20", "reward.settings.refit_steps=20"] if quick else []
    resolved = load_run("peg_insert", [f"run.{word}" for word in words])
    config = resolved.section("run.reward.settings", find_live("progress").config)
    counts = {kind: 1 for kind in COUNTS} if quick else COUNTS
    rule, demos_n = done_rule(resolved), 2 if quick else DEMOS
    old = generate(resolved, OLD, {"success": demos_n}, (seed, 0))
    new = generate(resolved, scene, {"success": demos_n}, (seed, 2))
    there = generate(resolved, scene, counts, (seed, 1))
    before = generate(resolved, OLD, counts, (seed, 1))
    say("episodes made")
    found: dict[str, dict] = {}

    def note(name: str, model: EmbeddedModel, took_s: float) -> None:
        rows = {"changed": figures(model, there, new[0], rule), "old": figures(model, before, old[0], rule)}
        found[name] = {"took_s": round(took_s, 1), **rows}
        say(f"{name}: {json.dumps(found[name])}")

    def timed(make: Callable[[], EmbeddedModel]) -> tuple[EmbeddedModel, float]:
        begun = time.perf_counter()
        return make(), time.perf_counter() - begun

    base, took = timed(lambda: fit_embedded(old, resolved.spec(), seed=seed, config=config))
    note("as fitted", base, took)
    trunk, network = base.trunk, base.network
    assert isinstance(network, ProgressModel)
    one = scored_episode(new[0], trunk, resolved.spec(), config)
    others = [scored_episode(demo, trunk, resolved.spec(), config) for demo in old]
    for name, episodes in (("one demonstration", [one]), ("one, and the old ones", [*others, one])):
        model, took = timed(
            lambda episodes=episodes: EmbeddedModel(trunk, adapt(network, episodes, config, seed=seed))  # type: ignore[misc]
        )
        note(name, model, took)
    full, took = timed(lambda: fit_embedded(new, resolved.spec(), seed=seed, config=config))
    note("full fit on 12", full, took)
    return found


def main() -> None:
    """Measure, print, and write JSON beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--scene", choices=(*TABLES, "half the light"), default="dark table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result = measure(args.scene, args.seed, args.quick, lambda words: print(words, flush=True))
    if args.out is not None:
        args.out.write_text(json.dumps({"scene": args.scene, "seed": args.seed, "models": result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
