"""What an online learner adds to a cloned flow that stays as it is: the flow by itself and with it, on held-out resets.

Peg insertion in lockstep, as in `make bench-algorithms`; the flow was cloned from the run's demonstrations. It is

- for `dsrl_on_base`, which steers it by its noise, behind a real HTTP server; one noise of A numbers is repeated for
  each step of a chunk, as the authors of DSRL do with pi0, and by itself it is asked with noise from the standard
  normal distribution: that is the steered run without its main part;
- for `residual_on_base`, which learns corrections of it, saved, and replanned every other tick.

Run: python -m benchmarks.on_base dsrl_on_base|residual_on_base [--minutes 5] [--seed 0] [--settings JSON] [--work DIR].
Prints a row for each; half an hour on a core.
"""

from __future__ import annotations

import argparse
import base64
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.json_server import json_server
from benchmarks.learning.lockstep import LAST, human_share, train_from_shared
from policies.acting import ActingPolicy
from policies.flow import carry
from policies.flow_bc.policy import FlowPolicy
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.evaluate import Evaluation, evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec

RESETS = 100
EVERY_S = 0.3
"""From one question to the next; the flow plans 8 ticks."""


class ServedFlow(ActingPolicy):
    """A saved flow that answers with the chunk to which it carries a noise.

    Args:
        spec: That it was saved with.
        params: Of `flow_bc`.
    """

    def __init__(self, spec: Spec, params: Params) -> None:
        super().__init__(spec, params, seed=0)
        self._spec = spec

    @torch.no_grad()
    def answer(self, asked: dict[str, Any]) -> list[list[float]]:
        """Return the chunk (C, A) for a question as it comes over HTTP."""
        network = self._network
        assert isinstance(network, FlowPolicy)
        images = {
            name: np.frombuffer(base64.b64decode(image["rgb"]), np.uint8).reshape(image["shape"]).copy()
            for name, image in asked["images"].items()
        }
        seen = Observation(
            images=images, proprio=np.array(asked["state"], np.float32), stamp_ns=0, age_s=0.0, skew_s=0.0
        )
        state = network.state(*self._see(seen))
        noise = torch.tensor(asked["noise"], dtype=torch.float32).repeat(network.chunk)[None]
        chunk = carry(network.field, state, noise, 10)[0].unflatten(0, (-1, self._spec.action_size))
        found: list[list[float]] = chunk.tolist()
        return found

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answer over HTTP for as long as the block lasts; gives the address."""
        info = {"name": "flow", "noise": self._spec.action_size, "actions": self._spec.action_size}
        server = json_server(info, lambda asked: {"actions": self.answer(asked)})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


def run_of(
    algorithm: str, settings: dict[str, Any], seed: int, minutes: float, more: Sequence[str] = ()
) -> ResolvedRun:
    """A run of peg insertion without any rule that ends it early."""
    return load_run(
        "peg_insert",
        [
            f"run.seed={seed}",
            f"run.algorithm={json.dumps({'name': algorithm, 'settings': settings})}",
            f"run.training.max_robot_minutes={minutes}",
            "run.training.max_episodes=100000",
            "run.training.enough.episodes=10000",
            *more,
        ],
    )


def base_at(url: str, plain: ResolvedRun) -> str:
    """The `base:` section for a served flow that was saved by a run."""
    spec = plain.spec()
    section = {
        "kind": "http",
        "url": url,
        "cameras": {camera.name: camera.name for camera in spec.cameras},
        "state": [field.name for field in spec.proprio],
        "action": spec.action_names,
        "rate_hz": plain.run.rate_hz,
        "every_s": EVERY_S,
        "join_s": 0.0,
        "timeout_s": 20.0,
        "noise": spec.action_size,
    }
    return f"run.base={json.dumps(section)}"


def say(what: str, found: Evaluation, share: tuple[float, float] | None) -> None:
    """Print a row."""
    helped = (
        "" if share is None else f", by the operator {share[0]:.0%} of the first {LAST}, {share[1]:.0%} of the last"
    )
    cycle_s = found.summary()["cycle_s"]
    print(f"{what}: {sum(found.successes)} of {len(found.successes)}, {cycle_s:.1f} s{helped}", flush=True)


@contextmanager
def base_of(algorithm: str, plain: ResolvedRun, policy: Path) -> Iterator[str]:
    """The `base:` section of a run with that algorithm, for as long as the block lasts."""
    if algorithm == "residual_on_base":
        yield f"run.base={json.dumps({'kind': 'saved', 'policy': str(policy.resolve())})}"
        return
    with ServedFlow(plain.spec(), load_params(policy)).served() as url:
        yield base_at(url, plain)


def main() -> None:
    """Clone, measure the base by itself, then with what learns on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=("dsrl_on_base", "residual_on_base"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", type=json.loads, default={}, help="of the algorithm, as JSON")
    parser.add_argument("--work", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    work = options.work or Path(tempfile.mkdtemp())
    cloned, seed = work / f"cloned-{options.seed}", options.seed
    plain = run_of("flow_bc", {"utd": 0.0}, seed, 0.1, ["run.training.max_episodes=1"])
    if not RunPaths(cloned).policy("policy").exists():
        train_from_shared(plain, cloned, work / f"shared-{seed}")
    with base_of(options.algorithm, plain, RunPaths(cloned).policy("policy")) as base:
        run = run_of(options.algorithm, options.settings, seed, options.minutes, [base])
        say("the flow by itself", evaluate(run, None, RESETS), None)
        folder = work / f"{options.algorithm}-{seed}"
        rows = train_from_shared(run, folder, work / f"shared-{options.algorithm}-{seed}")
        params = load_params(RunPaths(folder).policy("policy"))
        share = human_share(rows[:LAST]), human_share(rows[-LAST:])
        say(f"{options.algorithm}, {len(rows)} episodes", evaluate(run, params, RESETS), share)


if __name__ == "__main__":
    main()
