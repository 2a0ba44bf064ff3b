"""Probes of reward models with clips of a run's demonstrations, or of the simulator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from reward_models.interface import Frame, Instruction
from reward_models.probe import Probe, probe
from reward_models.vlm.config import Question, ServerSettings
from reward_models.vlm.registry import make_endpoint
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.evaluation import own_model
from robot_stack.learner.reward.judged_model import Wanted, check_views, large_model
from robot_stack.learner.reward.labelled import first_successes, shown_task
from robot_stack.learner.reward.synthetic import frames_of, generate
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, RewardError

SIMULATED = "peg_insert"
"""The run whose cell and task simulated demonstrations are of."""


def at_url(url: str, *, model: str, served: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings of a model on a server; where nobody says how the server calls it, its only model.

    Adapters of LRM that nobody names are those that the server calls by their questions.

    Args:
        settings: All else; `server` among them may hold what goes beside the address, such as `token_env`.

    Raises:
        ConfigError: If the settings name a place of their own, or do not fit.
        RewardError: If the server does not say, or has several.
    """
    beside = settings.get("server", {})
    if not isinstance(beside, Mapping):
        raise ConfigError(f"server of the settings is {beside!r}, must be a mapping; correct it")
    if "weights" in settings or "url" in beside:
        raise ConfigError(f"settings name a place, must not beside the URL {url}; leave weights and url out")
    try:
        server = ServerSettings.model_validate({"model": served or model, **beside, "url": url})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(
            f"server of the settings is wrong: {'.'.join(map(str, first['loc']))}: {first['msg']}; correct it"
        ) from None
    place = {"url": url, "model": server.model, **beside}
    adapted = model == "lrm" and "adapters" not in settings
    if not adapted and (served or "model" in beside):
        return {**settings, "server": place}
    names = make_endpoint(server).served()
    if adapted:
        adapters = {name: name for name in names if name in get_args(Question)}
        if not adapters:
            raise RewardError(
                f"models at {url} are {', '.join(names) or 'none'}, must be at least one of "
                f"{', '.join(get_args(Question))}; name the adapters in --settings"
            )
        return {**settings, "adapters": adapters, "server": place}
    if len(names) != 1:
        raise RewardError(f"models at {url} are {', '.join(names) or 'none'}, must be one; name it with --served")
    return {**settings, "server": place | {"model": names[0]}}


def probe_model(wanted: Wanted, run: Path | None, *, seed: int, say: Callable[[str, int, int], None]) -> Probe:
    """Probe a model with two demonstrations: one is shown to it, the clips are made of the other.

    Args:
        wanted: Which model.
        run: Folder of the run whose demonstrations and model are taken; None for simulated demonstrations.
        seed: Of simulated demonstrations.
        say: Told how far it is.

    Raises:
        ConfigError: If the settings of the model are missing, or it is fitted and there is no run.
        RewardError: If it does not answer, or the run has no two successes.
    """
    resolved = load_run(SIMULATED) if run is None else load_resolved(RunPaths(run).resolved)
    if wanted.large:
        model = large_model(wanted, None if run is None else resolved)
        check_views(model, resolved, "add --run RUN" if run is None else "take a run whose cell has them")
    elif run is None:
        raise ConfigError(f"reward model {wanted.name} is fitted in a run, must be probed in one; add --run RUN")
    else:
        model = own_model(run, resolved, wanted)
    task, clip = _simulated(resolved, seed, say) if run is None else _recorded(run, resolved)
    return probe(model, task, clip)


def _simulated(
    resolved: ResolvedRun, seed: int, say: Callable[[str, int, int], None]
) -> tuple[Instruction, tuple[Frame, ...]]:
    shown, clip = generate(
        resolved, {"success": 2}, seed=(seed, 3), on_episode=lambda n, of: say("demonstration", n, of)
    )
    return shown_task(resolved.task.text, frames_of(shown)), frames_of(clip)


def _recorded(run: Path, resolved: ResolvedRun) -> tuple[Instruction, tuple[Frame, ...]]:
    won = first_successes(run, resolved.task.text, 2)
    if len(won) < 2:
        raise RewardError(
            f"successes of run {run.name} are {len(won)}, must be at least 2, one to show and one to ask about; record "
            "demonstrations first"
        )
    return shown_task(resolved.task.text, won[0].frames), won[1].frames
