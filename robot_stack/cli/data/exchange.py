"""`robot-stack data export` and `import`: LeRobotDataset v3 and MCAP both ways, Rerun out only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote

from robot_stack.cli.data.common import Said, find_data, written
from robot_stack.cli.run_folder import RUNS, say_progress
from robot_stack.config.resolve import load_run
from robot_stack.datasets.advantage import measure_advantages
from robot_stack.datasets.bag.read import import_mcap
from robot_stack.datasets.bag.write import SUFFIX, export_mcap
from robot_stack.datasets.lerobot.export import export_lerobot
from robot_stack.datasets.lerobot.ingest import Like, import_lerobot
from robot_stack.datasets.rerun_files import SUFFIX as RECORDING
from robot_stack.datasets.rerun_files import export_rerun
from robot_stack.datasets.summary import select
from robot_stack.replay.outcome import Outcome
from robot_stack.runs.beginning import command_line
from robot_stack.types.errors import ConfigError
from robot_stack.types.transition import EpisodeKind


def data_export(
    name: str,
    out: Path,
    format: str,
    codec: str,
    kind: str | None,
    outcome: str | None,
    episodes: Sequence[str],
    advantage: bool = False,
    scores: str | None = None,
) -> Said:
    """Export the chosen episodes for other programs; all but the discarded ones by default.

    Raises:
        ConfigError: If advantages are asked for in another format, or scores without advantages.
    """
    if advantage and format != "lerobot":
        raise ConfigError(f"format is {format!r} with --advantage, must be 'lerobot'; the others have no such column")
    if scores is not None and not advantage:
        raise ConfigError(f"--scores is {scores!r} without --advantage, must be with it: nothing else reads scores")
    view = find_data(name)
    outcomes = [Outcome[outcome.upper()]] if outcome else [Outcome.OPEN, Outcome.SUCCESS, Outcome.FAILURE]
    found = select(view, kind=EpisodeKind(kind) if kind else None, outcomes=outcomes, episodes=episodes)
    chosen = [line.episode_id for line in found]
    if format == "mcap":
        count = export_mcap(view, chosen, out, on_episode=_say)
        lines = [f"{out}: {len(chosen)} episodes, {count} messages"]
        first = quote(str(out / f"{chosen[0]}{SUFFIX}"))  # it takes one bag
        lines.append(f"Next: {_import(out, 'mcap')}, or ros2 bag info {first}")
        return Said(document={"folder": str(out), "episodes": len(chosen), "messages": count}, lines=lines)
    if format == "rerun":
        size = export_rerun(view, chosen, out, on_episode=_say)
        lines = [f"{out}: {len(chosen)} episodes, {size / 1e6:.1f} MB", f"Next: rerun {quote(str(out))}/*{RECORDING}"]
        return Said(document={"folder": str(out), "episodes": len(chosen), "bytes": size}, lines=lines)
    worth = measure_advantages(view, chosen, scores) if advantage else None
    chosen = chosen if worth is None else list(worth.episodes)
    exported = export_lerobot(view, chosen, out, codec=codec, on_episode=_say, advantages=worth)
    lines = [f"{out}: {exported.episodes} episodes, {exported.rows} rows, videos {exported.codec}"]
    if worth is not None:
        good = sum(int(each.positive.sum()) for each in worth.episodes.values())
        lines.append(f"  progress by {worth.version}; {good} of {exported.rows} steps count as better than expected")
        if worth.left_out:
            lines.append(f"  left out, since it has not scored them: {', '.join(worth.left_out)}")
    lines += [
        f"  camera {camera}: pixels differ by {error['mean']:.2f} of 255 on average, {error['p99']:.0f} at the 99th "
        f"percentile, {error['max']:.0f} at most (PSNR {error['psnr_db']:.1f} dB)"
        for camera, error in exported.image_errors.items()
    ]
    lines.append(f"Next: {_import(out, 'lerobot')}, or open it with LeRobot")
    return Said(document={"folder": str(out), **asdict(exported)}, lines=lines)


def _import(out: Path, format: str) -> str:
    return command_line("data", "import", str(out), "--format", format, "--out", "FOLDER")


def data_import(
    folder: Path, out: Path, format: str, like: str | None, only_task: str | None, names_differ: bool
) -> Said:
    """Import a dataset into a new folder of episodes.

    Raises:
        ConfigError: If what only a dataset of another program needs is given without a run that it is to fit.
    """
    if like is None and (names_differ or only_task is not None):
        raise ConfigError("--only-task and --names-differ are given without --like, must be with it; name a run")
    if format == "mcap":
        return written(out, [import_mcap(folder, out, on_episode=_say)])
    fit = None if like is None else replace(_like(like), only_task=only_task, names_differ=names_differ)
    return written(out, [import_lerobot(folder, out, like=fit, on_episode=_say)])


def _like(name: str) -> Like:
    """Return what a dataset of another program is to fit: spec and task of a run or of a folder of episodes."""
    if Path(name).is_dir() or (RUNS / name).is_dir():
        view = find_data(name)
        return Like(spec=view.spec, task=view.task)
    resolved = load_run(name)
    return Like(spec=resolved.spec(), task=resolved.task.name)


def _say(what: str, number: int, count: int) -> None:
    say_progress(f"{what} episode", number, count)
