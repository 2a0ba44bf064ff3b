"""pydantic's findings as mistakes with a place in the file and a way out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, hint, shown, suggestion
from robot_stack.config.files.patterns import WORDS
from robot_stack.config.files.remedies import of_bool, of_bound, of_number, of_text


class PlacedError(ValueError):
    """A ValueError of a validator about a value inside or beside the one that it was given.

    Attributes:
        inside: Keys and indices that lead there.
        beside: The key of a neighbour, from which they lead there; None for the value that was given.
    """

    def __init__(self, text: str, *inside: str | int, beside: str | None = None) -> None:
        super().__init__(text)
        self.inside, self.beside = inside, beside


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
    where, error = finding["loc"], finding.get("ctx", {}).get("error")
    if isinstance(error, PlacedError):
        where = (*(where if error.beside is None else (*where[:-1], error.beside)), *error.inside)
    loc, _ = _way(model, where)
    if finding["type"].startswith("union_tag"):
        loc = [*loc, _discriminator(finding)]
    node, _ = tree.nearest(loc)
    return Mistake(mark=node.mark, key=".".join([*tree.path, *loc]), text=_text(finding, model))


def _text(finding: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind, got, loc, context = finding["type"], finding["input"], finding["loc"], finding.get("ctx", {})
    message = finding["msg"][0].lower() + finding["msg"][1:]
    found = f"{message} (got {shown(got)})"
    if kind == "missing" and isinstance(loc[-1], int):
        return f"the list ends before its value number {loc[-1] + 1}; add it"
    if kind == "missing":
        return f"field required; add '{loc[-1]}'"
    if kind == "union_tag_not_found":
        return f"field required; add '{_discriminator(finding)}'"
    if kind == "union_tag_invalid":
        tag, expected = str(context["tag"]), context["expected_tags"]
        return f"input should be one of {expected} (got {shown(tag)}){_choice_hint(tag, expected)}"
    if kind == "extra_forbidden":
        legal = legal_keys(model, loc[:-1])
        inner = "settings" in legal and suggestion(str(loc[-1]), legal) is None
        return f"{found}; put it under 'settings'" if inner else found + hint(str(loc[-1]), legal)
    if kind in ("literal_error", "enum"):
        return found + _choice_hint(str(got), context["expected"])
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "string_pattern_mismatch" and context["pattern"] in WORDS:
        rule, example = WORDS[context["pattern"]]
        return f"input should be {rule} (got {shown(got)}); write e.g. {example}"
    if kind in ("too_short", "too_long"):
        return _length(kind, context)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        keys = ", ".join(legal_keys(model, loc)) if kind != "dict_type" else "name: value"
        return f"input should be a mapping (got {shown(got)}); write its keys, each with a colon: {keys}"
    if kind in ("tuple_type", "list_type"):
        return f"input should be a list (got {shown(got)}); write its values in brackets, with commas between"
    remedy = _remedy(kind, got, loc, context)
    return f"{found}; {remedy}" if remedy else found


def _remedy(kind: str, got: object, loc: Sequence[object], context: Mapping[str, Any]) -> str:
    bounds = {key: context[key] for key in ("ge", "gt", "le", "lt") if key in context}
    if bounds:
        return of_bound(loc, got, bounds)
    if kind in ("int_type", "float_type", "finite_number", "int_from_float"):
        return of_number(got, whole=kind.startswith("int"))
    if kind == "bool_type":
        return of_bool(got)
    if kind == "string_type":
        return of_text(got)
    return {"string_too_long": "shorten it", "string_too_short": "write a text"}.get(kind, "")


def _length(kind: str, context: Mapping[str, Any]) -> str:
    have = context["actual_length"]
    if kind == "too_short":
        return (
            f"the list or mapping has {have} entries, must have at least {context['min_length']}; add what is missing"
        )
    return f"the list or mapping has {have} entries, must have at most {context['max_length']}; remove what is too much"


def _discriminator(finding: Mapping[str, Any]) -> str:
    return str(finding["ctx"]["discriminator"]).strip("'")


def _choice_hint(got: str, expected: str) -> str:
    near = suggestion(got, re.findall(r"'([^']*)'", expected))
    return f"; did you mean '{near}'?" if near else "; write one of them"


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
