"""Scoring a whole replay with a new version of the embedded model while the learner goes on.

Run: python -m benchmarks.rescore [--quick]

50,000 transitions in 1,250 episodes of features as the dry run's trunk gives them. A thread scores them whole with a
fresh model, as after a refit, and makes it the active one; beside it RLPD updates as in the dry run. Updates a second
are counted alone, then meanwhile. Also: what one frame costs by itself and in a batch.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time

import numpy as np

from benchmarks.cycle import batch, learner
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from robot_stack.config.task import NOfM, SuccessConfig
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule
from robot_stack.replay.potential import PotentialColumn
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec

FEATURES, PROPRIO, FRAMES = 452, 13, 41
EPISODES, QUICK_EPISODES = 1250, 50
ALONE_S = 5.0
SPEC = Spec(
    arms=(ArmSpec(name="arm", axes=("x", "y", "z", "rz"), translation_m=0.01, rotation_rad=0.06),),
    cameras=(CameraSpec(name="front", height_px=64, width_px=64),),
    proprio=(ProprioField(name="tcp_pose", size=PROPRIO),),
    rate_hz=10.0,
)


def measure(quick: bool) -> dict[str, float]:
    """Seconds for 50,000 transitions, updates a second alone and meanwhile, milliseconds a frame."""
    rng = np.random.default_rng(0)
    names = [f"{number:06d}-online-a" for number in range(QUICK_EPISODES if quick else EPISODES)]
    rule = SuccessConfig(threshold=0.8, n_of_m=NOfM(n=2, m=3))
    scorer, column = Scorer(lambda: SuccessRule(rule, SPEC)), PotentialColumn()
    for name in names:
        frames = rng.normal(size=(FRAMES, FEATURES + PROPRIO)).astype(np.float32)
        scorer.add(name, frames, frames[:, :PROPRIO])
    demos = [ScoredEpisode(frames=scorer.inputs(name), success=True) for name in names[:6]]
    model, _ = fit(demos, ProgressConfig(steps=5), text="insert the peg", seed=0)
    rows, cycle = batch(256, images=False), learner(end_to_end=False)

    def updates_for(going: threading.Event, limit_s: float) -> float:
        started_s, count = time.perf_counter(), 0
        while not going.is_set() and time.perf_counter() - started_s < limit_s:
            cycle.update(rows)
            count += 1
        return count / (time.perf_counter() - started_s)

    def score_all() -> None:
        for scores in scorer.adopt(model, names):
            column.add(scores, None)
        done.set()

    cycle.update(rows)
    alone = updates_for(threading.Event(), ALONE_S)
    done = threading.Event()
    started_s = time.perf_counter()
    thread = threading.Thread(target=score_all)
    thread.start()
    meanwhile = updates_for(done, 600.0)
    thread.join()
    transitions = len(names) * (FRAMES - 1)
    seconds = (time.perf_counter() - started_s) * 50_000 / transitions
    frames = scorer.inputs(names[0])
    single = []
    for last in range(8, FRAMES):
        began_s = time.perf_counter()
        model.score(frames[: last + 1], last)
        single.append(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    for name in names[:20]:
        model.score(scorer.inputs(name))
    batched = (time.perf_counter() - began_s) / (20 * FRAMES)
    return {
        "rescore_50k_s": seconds,
        "rescore_updates_kept": meanwhile / alone,
        "score_frame_ms": 1e3 * statistics.median(single),
        "score_frame_batched_ms": 1e3 * batched,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
