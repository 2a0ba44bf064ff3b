"""The merging of several tasks of one scene into one that takes turns with others, as `tasks` of a run asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from robot_stack.config.environment import KEY
from robot_stack.config.files.located import Located, Mark
from robot_stack.config.files.mistake import Mistake, shown
from robot_stack.config.section import check
from robot_stack.config.task import OtherTask, TaskConfig
from robot_stack.types.transition import back_id

ALONE = {
    "backward": "a task with a way back takes turns with that alone; name it as the only task of a run",
    "others": "they are written by the tasks of a run; remove it here, and name their files there",
}
"""Key of a task file -> why a run of several tasks refuses it."""


def merged(trees: Sequence[Located], mark: Mark, mistakes: list[Mistake]) -> Located | None:
    """Return the first task with the others inside it, or None after adding what does not go together.

    Args:
        trees: Of the task files, in the order of their turns; two or more.
        mark: Of the list that names them.
        mistakes: Grows by what is wrong.
    """
    before = len(mistakes)
    for tree in trees:
        for key, why in ALONE.items():
            if (node := tree.get(key)) is not None:
                mistakes.append(Mistake(mark=node.mark, key=key, text=f"{key} is given in one of several tasks: {why}"))
        if (node := tree.get("sim", KEY)) is not None:
            text = "an environment is one task, must be the only one of a run; name it with 'task'"
            mistakes.append(Mistake(mark=node.mark, key=f"sim.{KEY}", text=text))
    models = [check(tree, TaskConfig, mistakes) for tree in trees]
    known = [model for model in models if model is not None]
    if len(mistakes) > before or len(known) < len(trees):
        return None
    first, *others = known
    for index, (tree, other) in enumerate(zip(trees[1:], others, strict=True), 1):
        mistakes += _differences(tree, first, other)
        if other.name in [one.name for one in known[:index]]:
            text = f"name is {other.name!r}, must be another than that of the tasks before it; rename one"
            mistakes.append(Mistake(mark=_mark(tree, ("name",)), key="name", text=text))
        if other.name == back_id(first.name):
            text = f"name is {other.name!r}, must not be that of a way back of {first.name}; rename it"
            mistakes.append(Mistake(mark=_mark(tree, ("name",)), key="name", text=text))
    if len(mistakes) > before:
        return None
    own = tuple(
        Located(
            value={key: node for key, node in tree.entries.items() if key in OtherTask.model_fields},
            mark=tree.mark,
            path=("others", str(index)),
        )
        for index, tree in enumerate(trees[1:])
    )
    return trees[0].with_value(("others",), Located(value=own, mark=mark, path=("others",)))


def _differences(tree: Located, first: TaskConfig, other: TaskConfig) -> Iterator[Mistake]:
    """Yield a mistake for each setting in which a task may not differ from the first one."""
    may_differ = {*OtherTask.model_fields, *ALONE}
    wanted, have = (task.model_dump(exclude=may_differ) | {"scene": task.simulated} for task in (first, other))
    for path, value, must_be in _unlike((), have, wanted):
        key = ".".join(path)
        text = (
            f"{key} of task {other.name} is {shown(value)}, must be {shown(must_be)} as in {first.name}: one policy "
            "does both; make them alike, or leave one out of the run's tasks"
        )
        yield Mistake(mark=_mark(tree, path), key=key, text=text)


def _unlike(path: tuple[str, ...], have: object, wanted: object) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """Yield the keys under which two values differ, each with what is there and what must be."""
    if isinstance(have, dict) and isinstance(wanted, dict) and set(have) == set(wanted):
        for key in have:
            yield from _unlike((*path, key), have[key], wanted[key])
    elif have != wanted:
        yield path, have, wanted


def _mark(tree: Located, path: Sequence[str]) -> Mark:
    return tree.nearest(path)[0].mark
