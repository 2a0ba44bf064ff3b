"""Cards: what a stranger has to know of a policy or of episodes before he uses them, made from a run's own figures."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from robot_stack.config.resolved import ResolvedRun
from robot_stack.report.headline import headline
from robot_stack.types.spec import Spec

LIBRARY = "robot-stack"
WARNING = (
    "**This is not a safety-rated function.** The policy was made for the cell below. On another one, begin behind "
    "`robot-stack doctor`, at low limits, with a hardware emergency stop within reach."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a card is made from.

    Attributes:
        resolved: The run.
        summary: Its figures, as in summary.json; as `policy`, those of the policy that is given away.
        version: Of this project.
        repository: OWNER/NAME on the Hub, or "" for a folder.
        licence: Its identifier on the Hub, or "" if nobody said any.
    """

    resolved: ResolvedRun
    summary: dict[str, Any]
    version: str
    repository: str = ""
    licence: str = ""


def policy_card(about: About, hub: ModuleType) -> str:
    """Write the card of a policy; `hub` is the package huggingface_hub, which writes the part for programs."""
    policy, resolved = about.summary["policy"], about.resolved
    results = []
    if policy["episodes"]:
        low, high = policy["wilson95"]
        results = [
            hub.EvalResult(
                task_type="robotics",
                dataset_type=f"{LIBRARY}/{resolved.task.name}",
                dataset_name=f"{policy['episodes']} held-out resets of {resolved.task.name}",
                metric_type="success_rate",
                metric_name=f"success without an operator, 95 % interval {100 * low:.0f} to {100 * high:.0f} %",
                metric_value=round(policy["success"] / policy["episodes"], 4),
            )
        ]
    data = hub.ModelCardData(
        library_name=LIBRARY,
        pipeline_tag="robotics",
        license=about.licence or None,
        tags=["robotics", "reinforcement-learning", "human-in-the-loop", resolved.run.algorithm.name],
        model_name=_name(about),
        eval_results=results or None,
    )
    said = headline(about.summary)
    figures = "\n".join(f"| {what} | {value} |" for what, value in _figures(about.summary))
    source = f"--hub {about.repository}" if about.repository else "--folder THIS_FOLDER"
    return f"""---
{data.to_yaml()}
---

# {_name(about)}

{f"**{said.result}** on held-out resets without an operator. " if said.result else ""}{said.rest}

> {WARNING}

## Use

```sh
pip install 'robot-stack[learner,sim,ros]'
robot-stack pull {source} {resolved.task.name}
robot-stack eval {resolved.task.name}      # in simulation, where the cell is a simulated one
robot-stack deploy {resolved.task.name}    # on the cell that `run.yaml` describes; every episode is recorded
```

## The task and its cell

{resolved.task.text}

{_spec(resolved.spec())}

## How it was trained

{resolved.run.algorithm.name}, robot-stack {about.version}; all settings are in `run.yaml`.

| | |
| --- | --- |
{figures}
"""


def dataset_card(about: About, hub: ModuleType, *, episodes: int) -> str:
    """Write the card of episodes in LeRobot's format."""
    data = hub.DatasetCardData(
        license=about.licence or None,
        task_categories=["robotics"],
        tags=["LeRobot", LIBRARY, "human-in-the-loop"],
        pretty_name=_name(about),
        configs=[{"config_name": "default", "data_files": "data/*/*.parquet"}],
    )
    return f"""---
{data.to_yaml()}
---

# {_name(about)}

{episodes} episodes of a robot that learned with an operator who took over, in LeRobot's format (v3), written by
robot-stack {about.version}. Discarded episodes are left out; failures are in it.

{about.resolved.task.text}

{_spec(about.resolved.spec())}

```sh
robot-stack data import FOLDER --format lerobot --out EPISODES
```
"""


def _name(about: About) -> str:
    return about.repository.rpartition("/")[2] or f"{about.resolved.task.name}-{about.resolved.run.algorithm.name}"


def _figures(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is known of the run, in words and with units."""
    training, bc = summary["training"], summary["bc"]
    known = [
        ("demonstrations", summary["demos"]["episodes"], "{}"),
        ("episodes of online training", training["episodes"], "{}"),
        ("robot time of it", _minutes(training["robot_time_s"]), "{:.1f} min"),
        ("steps that an operator drove, first 20 episodes", _percent(training["human_share_first20"]), "{:.0f} %"),
        ("steps that an operator drove, last 20 episodes", _percent(training["human_share_last20"]), "{:.0f} %"),
        ("behaviour cloning of the same demonstrations", _share(bc), "{}"),
    ]
    return [(what, form.format(value)) for what, value, form in known if value is not None]


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 60


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _share(evaluation: dict[str, Any]) -> str | None:
    return f"{evaluation['success']} of {evaluation['episodes']}" if evaluation["episodes"] else None


def _spec(spec: Spec) -> str:
    cameras = ", ".join(f"`{camera.name}` {camera.shape[1]}x{camera.shape[0]}" for camera in spec.cameras)
    parts = ", ".join(f"`{part.name}`" for part in spec.proprio)
    return (
        f"Observed at {spec.rate_hz:g} Hz: cameras {cameras}; proprioception {parts} ({spec.proprio_size} numbers). "
        f"Action: {spec.action_size} numbers within -1 to 1."
    )
