"""Fitting of the progress model: members one by one, then the probability of done on episodes kept back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reward_models.alarms import nearest_distance
from reward_models.metrics import clock_scores, mean_voc
from reward_models.progress.calibrate import calibration_error, platt
from reward_models.progress.clips import (
    UNKNOWN,
    Clips,
    ClipSource,
    PairSource,
    ScoredEpisode,
    done_labels,
    prefix_indices,
)
from reward_models.progress.common_look import FEWEST, Columns, CommonLook
from reward_models.progress.config import ProgressConfig
from reward_models.progress.model import FrameScores, ProgressModel
from reward_models.progress.network import ProgressNetwork, preference_loss
from reward_models.progress.orders import PAIRS, OrderedPair, order_accuracy, pairs_of
from robot_stack.types.errors import RewardError

OnStep = Callable[[int, int, float], None]
"""Told (step, steps, loss) after each step, over all members."""

FEW = 10
"""Episodes of a kind under which each member sees all of them: a draw of four would leave one or two out."""
DONE_KNOWN = 100
"""Newest successes whose last frames say what a finished task looks like."""
NOISE = 0.1
"""Standard deviation of what is added to standardised inputs while training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """The figures of a fit on the episodes that it did not train on.

    Attributes:
        voc_heldout: Mean VOC on held-out successes, or on the training ones if none were held out.
        voc_clock: The same for the clock, which reads no image.
        false_done: Frames of these successes, well before the end, that pass the threshold, as a share.
        calibration_error: Of the probability of success over all held-out frames; NaN if none were held out.
        loss: Last training loss, mean of the members.
        orders: Ordered pairs that were trained on.
        order_accuracy: Share of the pairs with a held-out episode that Φ orders as was said; NaN without any.
        held_out: Names of the episodes that were held out, successes and failures.
    """

    version: str
    voc_heldout: float
    voc_clock: float
    false_done: float
    calibration_error: float
    loss: float
    orders: int = 0
    order_accuracy: float = float("nan")
    held_out: tuple[str, ...] = ()


def fit(
    episodes: Sequence[ScoredEpisode],
    config: ProgressConfig,
    *,
    text: str,
    seed: int,
    start: ProgressModel | None = None,
    on_step: OnStep = lambda step, steps, loss: None,
) -> tuple[ProgressModel, FitReport]:
    """Train a progress model on judged episodes, and calibrate it on those held out.

    It is judged by looks of the episodes that it trained on; in use it knows those of the held-out successes too.

    Args:
        episodes: At least one success; failures and refused successes sharpen the done head, orders of frames Φ.
        text: What the robot was told.
        start: Go on from these weights instead of random ones: adapts a model to another scene, cell or operator by as
            little as one demonstration. Where that is too little to calibrate by, its calibration stays, and what it
            knows of finished frames stays known.

    Raises:
        RewardError: If there is no success to learn from, `start` has other inputs, or an order of frames cannot be.
    """
    held_out, training = _split(episodes, config.held_out)
    torch.manual_seed(seed)
    inputs = episodes[0].frames.shape[1]
    model = ProgressModel(inputs, config, text=text, thumbnails=episodes[0].thumbnails)
    if start is None:
        model.mean, model.scale = standard(np.concatenate([e.frames for e in training]), model.thumbnails)
    elif start.inputs != inputs:
        raise RewardError(f"model to start from takes {start.inputs} inputs, must take {inputs}; fit it on this trunk")
    else:
        model.members.load_state_dict(start.members.state_dict())
        model.mean, model.scale = start.mean, start.scale
    _look_at_successes(model, [e for e in training if e.success][-DONE_KNOWN:], start)
    held_out, training = ([without_ruled_out(model, e) for e in part] for part in (held_out, training))
    pairs, pairs_aside = _ordered(episodes, training) if config.preference_weight else ([], [])
    losses = []
    for number, member in enumerate(model.networks):
        rng = np.random.default_rng((seed, number))

        def tell(step: int, loss: float, done: int = number * config.steps) -> None:
            on_step(done + step, config.members * config.steps, loss)

        clips = ClipSource(_bootstrap(training, rng), config, rng)
        drawn = PairSource(pairs, config.window, np.random.default_rng((seed, number, 1))) if pairs else None
        losses.append(_train(model, member, clips, drawn, tell))
    model.members.eval()
    error = _calibrate(model, held_out, start)
    successes = [e for e in held_out if e.success] or [e for e in training if e.success]
    scored = [model.score(e.frames) for e in successes]
    accuracy = _order_accuracy(model, pairs_aside)
    _look_at_successes(model, [e for e in episodes if e.success][-DONE_KNOWN:], start)
    model.seal()
    mean_loss = float(np.mean(losses))
    report = report_on(model.version, successes, scored, threshold=config.threshold, error=error, loss=mean_loss)
    return model, replace(
        report,
        orders=len(pairs),
        order_accuracy=accuracy,
        held_out=tuple(e.name for e in held_out if e.name),
    )


def without_ruled_out(model: ProgressModel, episode: ScoredEpisode) -> ScoredEpisode:
    """Return an episode with the frames ruled out from which a model must not learn that they are not done."""
    if episode.success:
        return episode
    ruled_out = ~model.always.fits(episode.frames)
    return replace(episode, ruled_out=ruled_out if episode.judged else ruled_out | model.like_done(episode.frames))


def _ordered(
    episodes: Sequence[ScoredEpisode], training: Sequence[ScoredEpisode]
) -> tuple[list[OrderedPair], list[OrderedPair]]:
    """Return the ordered pairs of training episodes, and those with an episode that is held out."""
    learned = {e.name for e in training if e.name}
    frames = {e.name: e.frames for e in episodes if e.name}
    if len(frames) < sum(bool(e.name) for e in episodes):
        raise RewardError("episodes to fit on have a name twice, must have names of their own; leave one out")
    split: tuple[list[OrderedPair], list[OrderedPair]] = ([], [])
    for episode in episodes:
        for order in episode.orders:
            inside = episode.name in learned and order.other in learned
            split[0 if inside else 1].extend(pairs_of(frames, {episode.name: (order,)}))
    return split


def _order_accuracy(model: ProgressModel, pairs: Sequence[OrderedPair]) -> float:
    """Return the order accuracy of pairs that were not trained on, by Φ as the model says it."""
    if not pairs:
        return float("nan")
    first, second = (
        np.array([model.score(frames, len(frames) - 1).progress[0] for frames in side])
        for side in ([pair.first for pair in pairs], [pair.second for pair in pairs])
    )
    return order_accuracy(first, second, np.array([pair.further for pair in pairs]))


def _split(episodes: Sequence[ScoredEpisode], held_out: int) -> tuple[list[ScoredEpisode], list[ScoredEpisode]]:
    """Split episodes into held out and training.

    Held out are the first successes, but not the last one left, and as many of the first failures, at most half.
    """
    successes = [e for e in episodes if e.success]
    failures = [e for e in episodes if not e.success]
    if not successes:
        raise RewardError("successful episodes are 0, must be at least 1; record a demonstration first")
    kept = successes[: min(held_out, len(successes) - 1)]
    kept_failures = failures[: min(held_out, len(failures) // 2)]
    held = {id(e) for e in (*kept, *kept_failures)}
    return [*kept, *kept_failures], [e for e in episodes if id(e) not in held]


def standard(frames: np.ndarray, thumbnails: Sequence[Columns]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and scale of inputs (N, D), each (D,); thumbnails stay in the units of their images."""
    mean, scale = frames.mean(axis=0), 1 / np.maximum(frames.std(axis=0), 1e-3)
    for start, stop in thumbnails:
        mean[start:stop], scale[start:stop] = 0.0, 1.0
    return mean, scale


def _look_at_successes(model: ProgressModel, successes: Sequence[ScoredEpisode], start: ProgressModel | None) -> None:
    """Let a model know what successes look like, throughout and at their end, and how far another frame may be.

    From the nearest end of a success half as far again as the furthest of them is from the nearest of another episode.
    A covered camera, another socket or a hand before the lens is further; the members were never shown any of it and
    may be sure of anything. A single success has no other to be far from: its end joins those that `start` knows,
    within the reach that is known. Nor can few say what all have in common: what `start` knows of that stays, and a
    frame may look like these instead.
    """
    ends, whole = [e.frames[-e.done_frames :] for e in successes], [e.frames for e in successes]
    if start is not None and len(successes) < FEWEST:
        model.always, model.finished = start.always.with_few(whole), start.finished.with_few(ends)
    else:
        model.always, model.finished = (CommonLook.of(shown, model.thumbnails) for shown in (whole, ends))
    plain = [model.standardised(own)[:, model.plain] for own in ends]
    if len(plain) < 2 and start is not None:
        model.done_known, model.done_reach = np.concatenate([start.done_known, *plain]), start.done_reach
    if len(plain) < 2:
        return
    away = [
        nearest_distance(own, np.concatenate([other for other in plain if other is not own])).max() for own in plain
    ]
    model.done_known, model.done_reach = np.concatenate(plain), 1.5 * float(max(away))


def _bootstrap(episodes: Sequence[ScoredEpisode], rng: np.random.Generator) -> list[ScoredEpisode]:
    """Draw as many successes and failures as there are, with replacement; of too few of a kind, take all."""
    drawn: list[ScoredEpisode] = []
    for outcome in (True, False):
        pool = [e for e in episodes if e.success is outcome]
        few = len(pool) < FEW
        drawn += pool if few else [pool[i] for i in rng.integers(len(pool), size=len(pool))]
    return drawn


def _train(
    model: ProgressModel,
    member: ProgressNetwork,
    source: ClipSource,
    pairs: PairSource | None,
    tell: Callable[[int, float], None],
) -> float:
    config = model.config
    optimiser = torch.optim.AdamW(member.parameters(), config.learning_rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
    value = float("nan")
    member.train()
    for step in range(config.steps):
        clips = source.draw(config.batch)
        frames = model.read(clips.frames)
        loss = _loss(member, frames + NOISE * torch.randn_like(frames), clips)
        if pairs is not None:
            loss = loss + config.preference_weight * _order_loss(model, member, *pairs.draw(PAIRS))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(member.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        value = float(loss.detach())
        tell(step + 1, value)
    return value


def _loss(member: ProgressNetwork, frames: torch.Tensor, clips: Clips) -> torch.Tensor:
    """Compute the loss of a batch of clips over the labels that are known.

    It is the MSE of progress and of the guess at it from single frames, half the BCE of done and half the MSE of hops.

    The first frame of a clip carries no evidence of progress and is skipped. Of each clip one pair of frames is drawn,
    so that both directions and all distances occur.
    """
    seen = member.embed(frames)
    progress, done = member.judge(seen)
    label, done_label = torch.from_numpy(clips.progress), torch.from_numpy(clips.done)
    known = (label >= 0).float()
    known[:, 0] = 0
    guess = torch.sigmoid(member.frame_progress_logit(seen))
    squared = (torch.sigmoid(progress) - label).square() + (guess - label).square()
    progress_loss = (squared * known).sum() / known.sum().clamp_min(1)
    sure = (done_label >= 0).float() * torch.from_numpy(clips.weight)[:, None]
    sure[:, 0] = 0
    entropy = functional.binary_cross_entropy_with_logits(done, done_label.clamp_min(0), reduction="none")
    done_loss = (entropy * sure).sum() / sure.sum().clamp_min(1)

    rows = torch.arange(len(frames))
    before = torch.randint(frames.shape[1], (len(frames),))
    after = torch.randint(frames.shape[1], (len(frames),))
    p, q = label[rows, before], label[rows, after]
    hop = torch.where(q >= p, (q - p) / (1 - p).clamp_min(1e-6), (q - p) / p.clamp_min(1e-6))
    both = ((p >= 0) & (q >= 0)).float()
    seen = seen.detach()  # pairs are read from what progress has learned, and do not disturb it
    missed = (member.compare(seen[rows, before], seen[rows, after]) - hop).square()
    return progress_loss + 0.5 * done_loss + 0.5 * (missed * both).sum() / both.sum().clamp_min(1)


def _order_loss(
    model: ProgressModel, member: ProgressNetwork, prefixes: np.ndarray, further: np.ndarray
) -> torch.Tensor:
    """Compute the loss of ordered pairs, by Φ of the last frame of each prefix, see `PairSource.draw`."""
    frames = model.read(prefixes)
    logits, _ = member.judge(member.embed(frames + NOISE * torch.randn_like(frames)))
    first, second = torch.sigmoid(logits[:, -1]).chunk(2)
    return preference_loss(first, second, torch.from_numpy(further))


def _calibrate(model: ProgressModel, held_out: Sequence[ScoredEpisode], start: ProgressModel | None) -> float:
    """Set the model's calibration on held-out episodes; return the calibration error that is left, NaN without any."""
    if not held_out:
        if start is not None:
            model.calibration = start.calibration
        return float("nan")
    logits, labels = [], []
    for episode in held_out:
        frames = np.arange(len(episode.frames))
        prefixes = np.stack([episode.frames[prefix_indices(last, model.config.window)] for last in range(len(frames))])
        _, done = model.logits(prefixes)
        label = done_labels(frames, len(frames), episode.done_frames) if episode.success else np.zeros(len(frames))
        if episode.ruled_out is not None:
            label[episode.ruled_out] = UNKNOWN
        logits.append(done.mean(dim=0).numpy()[label != UNKNOWN])
        labels.append(label[label != UNKNOWN])
    model.calibration = scale, offset = platt(logits, labels)
    z, y = np.concatenate(logits), np.concatenate(labels)
    return calibration_error(1 / (1 + np.exp(-(scale * z + offset))), y)


def report_on(
    version: str,
    successes: Sequence[ScoredEpisode],
    scored: Sequence[FrameScores],
    *,
    threshold: float,
    error: float = float("nan"),
    loss: float = 0.0,
) -> FitReport:
    """Return the figures of a model on successes: how its Φ rises, and how often it calls an early frame done.

    Args:
        version: Of the model.
        successes: At least one.
        scored: What it says of each.
        threshold: Probability of success that counts as done.
        error: Of its calibration.
        loss: Of its fit.
    """
    early = np.concatenate(
        [s.success[: max(0, len(s.success) - 2 * e.done_frames)] for e, s in zip(successes, scored, strict=True)]
    )
    return FitReport(
        version=version,
        voc_heldout=mean_voc([s.progress for s in scored]),
        voc_clock=mean_voc([clock_scores(len(s.progress)) for s in scored]),
        false_done=float((early >= threshold).mean()) if len(early) else 0.0,
        calibration_error=error,
        loss=loss,
    )
