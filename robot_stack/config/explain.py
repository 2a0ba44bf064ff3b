"""pydantic's findings as mistakes with a place in the file and a way out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from robot_stack.config.located import Located
from robot_stack.config.mistake import Mistake, hint, shown, suggestion

YAML_BOOLS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
LENGTH_TYPES = ("too_short", "too_long", "string_too_short", "string_too_long")


def explain(error: ValidationError, tree: Located, model: type[BaseModel]) -> list[Mistake]:
    """One mistake per finding; a missing key that a misspelt one stands for is not reported twice."""
    findings = error.errors(include_url=False)
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
    loc = [str(part) for part in finding["loc"] if part != "[key]"]
    node, _ = tree.nearest(loc)
    return Mistake(mark=node.mark, key=".".join([*tree.path, *loc]), text=_text(finding, model))


def _text(finding: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind, got, loc = finding["type"], finding["input"], finding["loc"]
    message = finding["msg"][0].lower() + finding["msg"][1:]
    found = f"{message} (got {shown(got)})"
    if kind == "missing":
        return f"field required; add '{loc[-1]}'"
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
    """Keys of the model that sits at `loc` below `model`."""
    models = [model]
    for part in loc:
        found = [
            inner
            for outer in models
            if part in outer.model_fields
            for inner in _models_in(outer.model_fields[str(part)].annotation)
        ]
        models = found or models  # an index or a mapping's key stays at the same model
    return tuple(dict.fromkeys(name for each in models for name in each.model_fields))


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
