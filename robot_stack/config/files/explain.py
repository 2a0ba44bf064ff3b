"""pydantic's findings as mistakes with a place in the file and a way out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, hint, shown, suggestion

YAML_BOOLS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def explain(error: ValidationError, tree: Located, model: type[BaseModel]) -> list[Mistake]:
    """Return one mistake per finding; a missing key that a misspelt one stands for is not reported twice.

    Nor is a list that pydantic finds too short because it has left out what is wrong in it.
    """
    found = error.errors(include_url=False)
    inside = {finding["loc"][:depth] for finding in found for depth in range(len(finding["loc"]))}
    findings = [each for each in found if not (each["type"] == "too_short" and each["loc"] in inside)]
    meant = {
        (*finding["loc"][:-1], suggestion(str(finding["loc"][-1]), legal_keys(model, finding["loc"][:-1])))
        for finding in findings
        if finding["type"] == "extra_forbidden"
    }
    return [
        _mistake(finding, tree, model)
        for finding in findings
        if not (finding["type"] == "missing" and finding["loc"] in meant)
    ]


def _mistake(finding: Mapping[str, Any], tree: Located, model: type[BaseModel]) -> Mistake:
    loc, _ = _way(model, finding["loc"])
    if finding["type"].startswith("union_tag"):
        loc = [*loc, _discriminator(finding)]
    node, _ = tree.nearest(loc)
    return Mistake(mark=node.mark, key=".".join([*tree.path, *loc]), text=_text(finding, model))


def _text(finding: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind, got, loc = finding["type"], finding["input"], finding["loc"]
    message = finding["msg"][0].lower() + finding["msg"][1:]
    found = f"{message} (got {shown(got)})"
    if kind == "missing" and isinstance(loc[-1], int):
        return f"the list ends before its value number {loc[-1] + 1}; add it"
    if kind == "missing":
        return f"field required; add '{loc[-1]}'"
    if kind == "union_tag_not_found":
        return f"field required; add '{_discriminator(finding)}'"
    if kind == "union_tag_invalid":
        tag, expected = str(finding["ctx"]["tag"]), finding["ctx"]["expected_tags"]
        return f"input should be one of {expected} (got {shown(tag)}){_choice_hint(tag, expected)}"
    if kind == "extra_forbidden":
        return found + hint(str(loc[-1]), legal_keys(model, loc[:-1]))
    if kind in ("literal_error", "enum"):
        return found + _choice_hint(str(got), finding["ctx"]["expected"])
    if kind in ("value_error", "assertion_error"):
        return str(finding["ctx"]["error"])
    if kind == "bool_type" and str(got).lower() in YAML_BOOLS:
        return f"{found}; did you mean '{YAML_BOOLS[str(got).lower()]}'?"
    if kind in ("int_type", "float_type") and isinstance(got, str) and _is_number(got):
        return f"{found}; remove the quotes"
    if kind in ("int_type", "float_type", "string_type", "tuple_type") and got is None:
        return f"{found}; write a value after the colon"
    if kind == "string_type" and isinstance(got, int | float):
        return f"{found}; put it in quotes"
    return found


def _discriminator(finding: Mapping[str, Any]) -> str:
    return str(finding["ctx"]["discriminator"]).strip("'")


def _choice_hint(got: str, expected: str) -> str:
    near = suggestion(got, re.findall(r"'([^']*)'", expected))
    return f"; did you mean '{near}'?" if near else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def legal_keys(model: type[BaseModel], loc: Sequence[object]) -> tuple[str, ...]:
    """Return the keys of the model that sits at `loc` below `model`."""
    _, models = _way(model, loc)
    return tuple(dict.fromkeys(name for each in models for name in each.model_fields))


def _way(model: type[BaseModel], loc: Sequence[object]) -> tuple[list[str], list[type[BaseModel]]]:
    """Return a finding's location as keys of the file, and the models that may sit there.

    Where a value chooses one of several models, pydantic puts that value into the location: it is no key.
    """
    keys: list[str] = []
    models = [model]
    for part in loc:
        if part == "[key]":
            continue
        found = [
            inner
            for outer in models
            if part in outer.model_fields
            for inner in _models_in(outer.model_fields[str(part)].annotation)
        ]
        named = [each for each in models if part in _tags(each)]
        if not found and len(models) > 1 and named:
            models = named
        else:
            models = found or models  # an index or a mapping's key stays at the same model
            keys.append(str(part))
    return keys, models


def _tags(model: type[BaseModel]) -> set[object]:
    """Return the values by which a model is chosen: those of its fields that can have only one."""
    values = (get_args(field.annotation) for field in model.model_fields.values())
    return {each[0] for each in values if len(each) == 1 and isinstance(each[0], str)}


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
