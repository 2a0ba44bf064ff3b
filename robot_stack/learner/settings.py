"""Settings of a run's learning side, checked by their owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from policies.encoders.registry import find_encoder, find_trunk_builders
from policies.registry import find_algorithm, find_builders
from policies.settings import LearnerConfig
from reward_models.live import find_live, find_live_builders
from reward_models.progress.config import LiveRewardConfig
from reward_models.vlm.registry import find_family
from robot_stack.config.base import SavedBase
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.hindsight import Hindsight
from robot_stack.replay.rewards import RewardRule
from robot_stack.types.errors import ConfigError
from robot_stack.types.help import HelpKind

IMITATION_WINDOW_S = 1.0
"""Time over which progress weighs a step that is imitated, where chunks are not longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Settings of a run's algorithm, encoder and reward model.

    Attributes:
        algorithm: Name in the registry.
        config: The algorithm's settings, a model of its own.
        encoder: Name in the registry.
        encoder_config: Its settings, a model of its own.
        reward: Settings of the live reward model, a model of its own.
        rescore: Settings of the large model behind it, a model of their own; None without one.
        device: Where the learner computes on this machine, "cpu" or "cuda".
    """

    algorithm: str
    config: LearnerConfig
    encoder: str
    encoder_config: Any
    reward: LiveRewardConfig
    rescore: Any
    device: str

    @property
    def trained_encoder(self) -> bool:
        """Return whether the encoder is trained end to end, from images in the replay."""
        return bool(getattr(self.encoder_config, "trained", False))


def learning_settings(resolved: ResolvedRun) -> LearningSettings:
    """Check the free sections of a run against the parts they name, and return them as settings.

    What builds the parts is imported, so that nothing is fitted for one that cannot be built.

    Raises:
        ConfigError: If a setting does not fit, a part cannot be built, or the device is not there.
    """
    from policies.device import find_device  # with torch, which checking settings does not need

    _asking(resolved)
    _imitation(resolved)
    _discount(resolved)
    find_builders(resolved.run.algorithm.name)
    find_trunk_builders(resolved.run.encoder.name)
    find_live_builders(resolved.run.reward.name)
    return LearningSettings(
        algorithm=resolved.run.algorithm.name,
        config=_algorithm(resolved),
        encoder=resolved.run.encoder.name,
        encoder_config=_encoder(resolved),
        reward=_reward(resolved),
        rescore=_rescore(resolved),
        device=find_device(resolved.run.device),
    )


def learning_sections(resolved: ResolvedRun) -> dict[str, BaseModel]:
    """Return the free sections of a run's learning side by their dotted keys, with every default.

    Raises:
        ConfigError: If a setting does not fit.
    """
    sections = {
        "run.algorithm.settings": _algorithm(resolved),
        "run.encoder.settings": _encoder(resolved),
        "run.reward.settings": _reward(resolved),
        "run.reward.rescore.settings": _rescore(resolved),
    }
    return {key: section for key, section in sections.items() if section is not None}


def check_settings(resolved: ResolvedRun) -> None:
    """Check what `learning_settings` returns, but for the device: the learner may run on another machine.

    Raises:
        ConfigError: One line per mistake over all sections.
        ModuleNotFoundError: If a package's part needs a library that is missing here, and nothing else is wrong.
    """
    said, missing = [], None
    for section in (_algorithm, _encoder, _reward, _rescore):
        try:
            section(resolved)
        except ConfigError as error:
            said.append(str(error))
        except ModuleNotFoundError as error:
            missing = error
    if said:
        raise ConfigError("\n".join(said))
    if missing is not None:
        raise missing
    _asking(resolved)
    _discount(resolved)
    _imitation(resolved)


def _algorithm(resolved: ResolvedRun) -> LearnerConfig:
    name, form = resolved.run.algorithm.name, resolved.run.reward.form
    algorithm = find_algorithm(name)
    if algorithm.needs_base and resolved.run.base is None:
        text = f"input is {name!r} in a run without a base policy, must have one; add base: to the run"
        raise ConfigError(str(resolved.mistake("run.algorithm.name", text)))
    config: object = resolved.section("run.algorithm.settings", algorithm.config)
    if not isinstance(config, LearnerConfig):
        raise ConfigError(
            f"settings of algorithm {name!r} are {type(config).__name__}, must have what the update loop reads; see "
            "policies.settings.LearnerConfig"
        )
    if algorithm.steers_base:
        _steering(resolved, config)
    if form in ("difference", "absolute") and config.shaping_weight and (n_step := config.sampling.n_step) > 1:
        text = (
            f"input is {form!r} with returns of {n_step} steps, must be of single ones; set n_step and chunk "
            "to 1 or take 'potential'"
        )
        raise ConfigError(str(resolved.mistake("run.reward.form", text)))
    lowest = getattr(config, "value_min", None)
    if form == "potential" and lowest is not None and config.shaping_weight > -lowest:
        text = (
            f"value_min is {lowest:g}, must be at most {-config.shaping_weight:g} with a shaping_weight of "
            f"{config.shaping_weight:g}: returns reach as far down; lower one of them"
        )
        raise ConfigError(str(resolved.mistake("run.algorithm.settings", text)))
    return config


def _steering(resolved: ResolvedRun, config: LearnerConfig) -> None:
    """Refuse a base whose noise cannot be chosen, or that answers anew within the ticks that a return runs over."""
    base = resolved.run.base
    if base is None or isinstance(base, SavedBase) or base.noise is None:
        text = "base draws its own noise, must let it be chosen to be steered; set noise, of kind lerobot or http"
        raise ConfigError(str(resolved.mistake("run.base.noise", text)))
    chunk_s = config.sampling.chunk / resolved.run.rate_hz
    if base.every_s < chunk_s - 1e-9:
        text = (
            f"input is {base.every_s:g}, must be at least {chunk_s:g}, the ticks of algorithm.settings.chunk "
            f"({config.sampling.chunk}); raise it, or lower chunk"
        )
        raise ConfigError(str(resolved.mistake("run.base.every_s", text)))
    if base.join_s > 0:
        text = (
            f"input is {base.join_s:g}, must be 0 where the base is steered, for within a join it proposes what two "
            "noises became; set join_s: 0"
        )
        raise ConfigError(str(resolved.mistake("run.base.join_s", text)))


def _encoder(resolved: ResolvedRun) -> Any:
    config = resolved.section("run.encoder.settings", find_encoder(resolved.run.encoder.name).config)
    name = resolved.run.algorithm.name
    if getattr(config, "trained", False) and find_algorithm(name).frozen_encoder:
        text = (
            f"input is true under {name!r}, a part of which is frozen, must be false: that part would lose its "
            "features; or choose another algorithm"
        )
        raise ConfigError(str(resolved.mistake("run.encoder.settings.trained", text)))
    return config


def _asking(resolved: ResolvedRun) -> None:
    """Refuse a signal that the run's algorithm or encoder cannot give."""
    asking, name = resolved.run.asking, resolved.run.algorithm.name
    wanted = () if asking is None else asking.signals
    trained = bool(getattr(_encoder(resolved), "trained", False))
    text = ""
    if asking is not None and find_algorithm(name).steers_base and (asking.hold or asking.base_after_s is not None):
        text = f"input has hold or base_after_s under {name!r}, where the base leads anyway, must not; leave both out"
        raise ConfigError(str(resolved.mistake("run.asking", text)))
    if HelpKind.CRITICS in wanted and not find_algorithm(name).has_critics:
        text = f"input names 'critics' under {name!r}, whose actor has none, must not; remove it or take 'rlpd' or 'qc'"
    elif HelpKind.DISTANCE in wanted and trained:
        text = "input names 'distance' with an encoder that goes on learning, must not; remove it or freeze the encoder"
    if text:
        raise ConfigError(str(resolved.mistake("run.asking.signals", text)))


def _reward(resolved: ResolvedRun) -> LiveRewardConfig:
    config: LiveRewardConfig = resolved.section("run.reward.settings", find_live(resolved.run.reward.name).config)
    said = [
        str(resolved.mistake(f"run.reward.settings.{name}", text))
        for name, text in config.mistakes({field.name: field.size for field in resolved.spec().sensed.proprio})
    ]
    if said:
        raise ConfigError("\n".join(said))
    return config


def reward_rule(resolved: ResolvedRun, settings: LearningSettings) -> RewardRule:
    """Return what outcomes, steps and progress are worth in a run."""
    reward = resolved.run.reward
    return RewardRule(
        failure=reward.failure,
        step_penalty=reward.step_penalty,
        shaping=settings.config.shaping_weight,
        form=reward.form,
        shaping_discount=settings.config.sampling.gamma if reward.discount == "scheduled" else None,
    )


def _imitation(resolved: ResolvedRun) -> None:
    """Refuse weights by progress in a run none of whose reward models says how far an episode is."""
    run = resolved.run
    if run.imitation.weights == "equal" or run.reward.rescore is not None or find_live(run.reward.name).says_progress:
        return
    text = (
        f"input is 'progress' with reward model {run.reward.name!r}, which does not say how far an episode is, must be "
        "'equal'; or take reward model 'progress', or add one that says it as reward.rescore"
    )
    raise ConfigError(str(resolved.mistake("run.imitation.weights", text)))


def _discount(resolved: ResolvedRun) -> None:
    """Refuse a discount that is scheduled in a run that has none, or nothing to schedule it by."""
    run, config = resolved.run, _algorithm(resolved)
    if run.reward.discount == "fixed":
        return
    start = run.start_from
    text = ""
    if getattr(config, "discount", None) is None:
        text = f"with {run.algorithm.name!r}, whose settings have no discount"
    elif run.reward.rescore is None and not find_live(run.reward.name).says_progress:
        text = f"with reward model {run.reward.name!r}, which does not say how far an episode is"
    elif run.reward.form == "sparse" or config.shaping_weight == 0:
        text = "without reward before the end, which alone a policy sees that looks a few ticks ahead"
    elif (n_step := config.sampling.n_step) > 1:
        text = f"with returns of {n_step} steps, where it is for single ones"
    elif len(resolved.task.turns) > 1:
        text = f"with {len(resolved.task.turns)} tasks, whose episodes tell nothing of each other's ticks"
    elif start is not None and "learner" in start.take:
        text = "with critics of an earlier run (start_from), which know another discount"
    if text:
        text = f"input is 'scheduled' {text}, must be 'fixed'; change one of them"
        raise ConfigError(str(resolved.mistake("run.reward.discount", text)))


def imitation_window(resolved: ResolvedRun, settings: LearningSettings) -> int:
    """Return the frames over which the rise of Φ weighs what is imitated; 0 in a run that weighs all of it the same.

    It is about a second, or a chunk where that is longer: no row should be judged by less than what it shows.
    """
    if resolved.run.imitation.weights == "equal":
        return 0
    return max(1, round(resolved.run.rate_hz * IMITATION_WINDOW_S), settings.config.sampling.chunk)


def hindsight_of(resolved: ResolvedRun) -> Hindsight | None:
    """Return which part of the proprio vector is a goal, and how often a run relabels it; None for never."""
    goal, share = resolved.task.goal, resolved.run.hindsight
    if goal is None or not share:
        return None
    spec = resolved.spec()
    return Hindsight(
        share=share, desired=spec.part(goal.desired), achieved=spec.part(goal.achieved), within=goal.within
    )


def _rescore(resolved: ResolvedRun) -> Any:
    choice = resolved.run.reward.rescore
    if choice is None:
        return None
    family = find_family(choice.name)
    settings = resolved.section("run.reward.rescore.settings", family.config)
    if not family.shapes(settings):
        text = (
            f"input is {choice.name!r}, which with these settings does not say how far an episode is; choose a model "
            "that does, or give clip a baseline, lrm the adapter progress"
        )
        raise ConfigError(str(resolved.mistake("run.reward.rescore.name", text)))
    return settings
