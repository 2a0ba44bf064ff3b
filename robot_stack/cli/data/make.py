"""`robot-stack data edit`, `merge` and `split`: they write new folders; what was read stays as it is."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robot_stack.cli.data.common import Said, find_data, number, pairs, written
from robot_stack.config.files.mistake import shown
from robot_stack.datasets.edit import Changes, by_field, by_share, edit, merge, split
from robot_stack.datasets.summary import summarize
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.event import Verdict

FRAMES = re.compile(r"(\d{1,9}):(\d{1,9})")


def data_edit(
    name: str, out: Path, relabel: Sequence[str], discard: Sequence[str], trim: Sequence[str], note: Sequence[str]
) -> Said:
    """Write a copy of the episodes in which some are relabelled, discarded, trimmed or noted."""
    verdicts = {}
    for episode_id, word in pairs(relabel, "--relabel").items():
        if word not in (Verdict.SUCCESS, Verdict.FAILURE):
            raise ConfigError(f"verdict of {episode_id} is {word!r}, must be success or failure; or use --discard")
        verdicts[episode_id] = Verdict(word)
    for episode_id in sorted(set(verdicts) & set(discard)):
        raise ConfigError(f"episode {episode_id} is relabelled and discarded, must be one of the two; leave one out")
    verdicts |= dict.fromkeys(discard, Verdict.DISCARD)
    trims = {}
    for episode_id, frames in pairs(trim, "--trim").items():
        numbers = FRAMES.fullmatch(frames)
        if numbers is None:
            raise ConfigError(
                f"trim of {episode_id} is {shown(frames)}, must be A:B with two frame numbers; e.g. 10:80"
            )
        trims[episode_id] = (int(numbers[1]), int(numbers[2]))
    changes = Changes(verdicts=verdicts, trims=trims, notes=pairs(note, "--note"))
    return written(out, [edit(find_data(name), out, changes, now_unix_s=time.time())])


def data_merge(names: Sequence[str], out: Path) -> Said:
    """Merge the episodes of several folders into a new one."""
    return written(out, [merge([find_data(name) for name in names], out)])


def data_split(name: str, out: Path, by: str | None, shares: Sequence[str], seed: int) -> Said:
    """Split the episodes of a folder into several new ones, by a field or by shares."""
    view = find_data(name)
    found, _ = summarize(view)
    if not found:
        raise StoreError(f"number of episodes in {view.root} is 0, must be at least 1; let the run record some")
    if by is not None:
        parts, how = by_field(found, "outcome" if by == "outcome" else "kind"), {"by": by}
    else:
        numbers = {part: number(part, share) for part, share in pairs(shares, "--share").items()}
        parts = by_share([line.episode_id for line in found], numbers, seed)
        how = {"shares": str(numbers), "seed": str(seed)}
    said = written(out, split(view, out, parts, how))
    sizes = {part: len(episode_ids) for part, episode_ids in parts.items()}
    lines = [f"{out / part}: {size} episodes" for part, size in sizes.items()]
    return replace(said, document={**said.document, "parts": sizes}, lines=[*lines, *said.lines])
