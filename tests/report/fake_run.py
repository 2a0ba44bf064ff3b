"""A synthetic run folder, its rows written by the statistics, the metrics log and the episode store of a real run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import ControlRow, CriticRow, EndRow, FitRow, RewardFitRow, UpdateRow
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TASK = "peg_insert"
PRETRAIN = 3000
UTD = 4
ASKED = 8.0
PERIOD_NS = 100_000_000
VERSION = "0123456789abcdef"
VERSION_EVALUATED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One training episode: who acted at each step, what the model said, what was true."""

    sources: tuple[Source, ...]
    declared: bool
    truth: bool
    operator: Verdict | None = None


def played(rng: np.random.Generator, share_done: float) -> Played:
    """An episode as it might go after that share of the training."""
    truth = bool(rng.random() < 0.55 + 0.45 * share_done)
    steps = int(rng.integers(40, 70)) if truth else 120
    sources = [Source.POLICY] * steps
    if rng.random() > 1.2 * share_done:
        start, length = int(rng.integers(5, 15)), int(rng.integers(12, 25))
        sources[start : start + length] = [Source.HUMAN] * length
        sources[start + length : start + length + 3] = [Source.IDLE] * 3
    declared = truth if rng.random() > 0.04 else not truth
    operator = Verdict.FAILURE if declared and not truth else None
    return Played(sources=tuple(sources[:steps]), declared=declared, truth=truth, operator=operator)


def write_run(
    folder: Path, *, demos: int = 3, online: int = 30, stored: int = 4, seed: int = 0, plays: list[Played] | None = None
) -> None:
    """A finished run.

    Args:
        folder: Becomes the run folder.
        demos: Demonstrations.
        online: Training episodes, unless `plays` names them.
        stored: How many of them, from both ends, are in the store with frames and scores.
        seed: Of everything made up.
        plays: The training episodes.
    """
    rng = np.random.default_rng(seed)
    resolved = load_run(TASK, [f"seed={seed}"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(resolved.to_yaml())
    plays = plays if plays is not None else [played(rng, i / max(1, online - 1)) for i in range(online)]
    metrics, actor = MetricsLog(folder / "metrics.jsonl"), MetricsLog(folder / "a0.jsonl")
    statistics = EpisodeStatistics(10.0)
    spec = resolved.spec()
    with EpisodeStore(folder / "store", spec, TASK) as store:
        demo = Played(sources=(Source.HUMAN,) * 50, declared=False, truth=True, operator=Verdict.SUCCESS)
        for number in range(demos):
            _episode(statistics, metrics, actor, store, spec, EpisodeKind.DEMO, number, demo, rng, stored=False)
        metrics.log(FitRow(trunk_s=60.0, total_s=95.0, demos=demos, pretrain_updates=PRETRAIN, utd=ASKED))
        _log_reward_fit(metrics, 0, 0.93)
        for i, play in enumerate(plays):
            keep = i < (stored + 1) // 2 or i >= len(plays) - stored // 2
            _episode(statistics, metrics, actor, store, spec, EpisodeKind.ONLINE, demos + i, play, rng, stored=keep)
            _log_update(metrics, statistics, i / max(1, len(plays) - 1), rng)
            _log_critic(metrics, episode_id(demos + i, EpisodeKind.ONLINE, "a0"), play, i / max(1, len(plays) - 1), rng)
        _log_reward_fit(metrics, len(plays), 0.96)
    metrics.log(
        EndRow(
            updates=PRETRAIN + UTD * statistics.online_steps,
            env_steps=statistics.online_steps,
            replay_bytes_per_transition=7312.5,
            replay_transitions=statistics.online_steps + 50 * demos,
        )
    )
    metrics.close()
    actor.close()
    write_evaluation(folder / "eval_policy.json", [True] * 97 + [False] * 3)
    write_evaluation(folder / "eval_bc.json", [True] * 52 + [False] * 48)
    (folder / "memory.json").write_text(json.dumps({"peak_mb": 3456.7}))
    (folder / "phases.json").write_text(json.dumps({"collecting_demos": 180.0, "fitting": 95.0, "training": 1200.0}))


def write_evaluation(path: Path, successes: list[bool]) -> None:
    """As rollout/evaluate.py writes it."""
    low, high = wilson_interval(sum(successes), len(successes))
    durations = [4.5 if success else 12.0 for success in successes]
    summary = {"episodes": len(successes), "success": sum(successes), "wilson95": [round(low, 4), round(high, 4)]}
    summary |= {
        "cycle_s": 4.5 if any(successes) else None,
        "observation_age_ms": 30.0,
        "params_version": VERSION_EVALUATED,
    }
    path.write_text(json.dumps(summary | {"successes": successes, "durations_s": durations}))


def _episode(
    statistics: EpisodeStatistics,
    metrics: MetricsLog,
    actor: MetricsLog,
    store: EpisodeStore,
    spec: Spec,
    kind: EpisodeKind,
    number: int,
    play: Played,
    rng: np.random.Generator,
    *,
    stored: bool,
) -> None:
    name = episode_id(number, kind, "a0")
    header = EpisodeHeader(
        episode_id=name, kind=kind, task=TASK, actor="a0", started_unix_s=1.7e9 + 20 * number, seed=number
    )
    account = statistics.begin(header)
    steps = list(_steps(spec, name, play, kind, rng))
    for step in steps:
        statistics.add(step)
    for label in _labels(name, play, number):
        statistics.label(label)
        store.append_label(label)
    progress = _progress(play, len(steps), rng)
    account.progress, account.max_progress = float(progress[-1]), float(progress.max())
    if stored:
        store.begin(header)
        for step in steps:
            store.append(step)
        store.append_scores(EpisodeScores(episode_id=name, version=VERSION, progress=progress, success=progress**4))
    metrics.log(account.row(10.0, VERSION))
    _log_control(actor, account, kind, len(play.sources), rng)


def _steps(spec: Spec, name: str, play: Played, kind: EpisodeKind, rng: np.random.Generator) -> list[Step]:
    still = np.zeros(spec.action_size, np.float32)
    end = EndReason.SUCCESS if play.declared or kind is EpisodeKind.DEMO else EndReason.TIMEOUT
    images = {c.name: np.full(c.shape, rng.integers(60, 200, 3), np.uint8) for c in spec.cameras}
    steps = []
    for t in range(len(play.sources) + 1):
        last = t == len(play.sources)
        action = None
        if not last:
            action = ActionRow(
                executed=still,
                proposed=still,
                human=still,
                source=play.sources[t],
                clipped=t % 11 == 0,
                params_version=max(1, t),
            )
        shown = {camera: image + np.uint8(t % 40) for camera, image in images.items()}
        seen = Observation(
            images=shown,
            proprio=np.full(spec.proprio_size, t / 100, np.float32),
            stamp_ns=10**9 + PERIOD_NS * t,
            age_s=0.03,
            skew_s=0.004,
        )
        steps.append(Step(episode_id=name, index=t, observation=seen, action=action, end=end if last else None))
    return steps


def _labels(name: str, play: Played, number: int) -> list[Label]:
    said = [(LabelSource.TRUTH, Verdict.SUCCESS if play.truth else Verdict.FAILURE)]
    if play.declared:
        said.append((LabelSource.MODEL, Verdict.SUCCESS))
    if play.operator is not None:
        said.append((LabelSource.OPERATOR, play.operator))
    return [Label(episode_id=name, verdict=v, source=s, stamp_unix_s=1.7e9 + 20 * number + 15) for s, v in said]


def _progress(play: Played, frames: int, rng: np.random.Generator) -> np.ndarray:
    top = 0.97 if play.truth else 0.55
    ramp = np.linspace(0.03, top, frames) ** 0.8 + rng.normal(0, 0.015, frames)
    return np.clip(ramp, 0, 1).astype(np.float32)


def _log_control(
    actor: MetricsLog, account: EpisodeAccount, kind: EpisodeKind, ticks: int, rng: np.random.Generator
) -> None:
    actor.log(
        ControlRow(
            episode_id=account.header.episode_id,
            episode_kind=kind,
            end=account.end,
            steps=account.steps,
            jitter_ms=np.round(rng.gamma(2.0, 0.6, ticks + 1), 2).tolist(),
            age_ms=np.round(rng.normal(32, 5, ticks + 1), 2).tolist(),
            skew_ms_max=6.0,
            act_ms=np.round(rng.gamma(6.0, 0.7, ticks), 2).tolist(),
            params_age_s=np.round(rng.uniform(0.1, 2.0, ticks), 2).tolist(),
            link=True,
        )
    )


def _log_update(
    metrics: MetricsLog, statistics: EpisodeStatistics, share_done: float, rng: np.random.Generator
) -> None:
    steps = statistics.online_steps
    updates = PRETRAIN + UTD * steps
    q = 0.2 + 0.5 * share_done + rng.normal(0, 0.02)
    metrics.log(
        UpdateRow(
            updates=updates,
            env_steps=steps,
            utd=UTD,
            updates_per_s=41.0 + rng.normal(0, 2),
            replay=steps,
            params_version=updates // 50,
            metrics={
                "critic_loss": 0.02 * np.exp(-2 * share_done) + 0.001,
                "q": q,
                "target_q": q + rng.normal(0, 0.01),
                "actor_loss": -q,
                "q_gradient": 0.2 + 0.6 * share_done,
                "imitation_gradient": 0.5 - 0.3 * share_done,
                "entropy": 3.0 - share_done,
                "temperature": 0.05,
            },
        )
    )


def _log_critic(metrics: MetricsLog, name: str, play: Played, share_done: float, rng: np.random.Generator) -> None:
    steps, corrections = len(play.sources), max(0, play.sources.count(Source.HUMAN) - 2)
    own = steps if play.truth and not corrections else 0
    returned = 0.97 ** (steps / 2) if play.truth else 0.0
    metrics.log(
        CriticRow(
            episode_id=name,
            updates=PRETRAIN + int(UTD * 60 * 30 * share_done),
            steps=steps,
            td_error=0.2 * np.exp(-share_done) + 0.01 * rng.random(),
            returns=steps if play.declared else 0,
            q_mean=returned + rng.normal(0, 0.1) if play.declared else None,
            return_mean=returned if play.declared else None,
            corrections=corrections,
            corrections_preferred=round(corrections * (0.75 + 0.2 * share_done)),
            own_steps=own,
            own_preferred=round(own * (0.8 + 0.19 * share_done)),
            ask_ms=6.5,
        )
    )


def _log_reward_fit(metrics: MetricsLog, online: int, voc: float) -> None:
    metrics.log(
        RewardFitRow(
            version=VERSION,
            voc_heldout=voc,
            voc_clock=1.0,
            false_done=0.0,
            episodes=3 + online // 4,
            failures=online // 4,
            online_episodes=online,
        )
    )
