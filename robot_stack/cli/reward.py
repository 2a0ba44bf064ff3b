"""`robot-stack reward`: how good a reward model is, and whether it answers sensibly."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robot_stack.cli.run_folder import RUNS, find_folder, say_progress
from robot_stack.disk.durable import check_writable, write_durable
from robot_stack.replay.layout import StorePaths
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError

if TYPE_CHECKING:
    from robot_stack.learner.reward.evaluation import Evaluated
    from robot_stack.learner.reward.judged_model import Wanted

TASK = "peg_insert"
"""The run whose cell and task synthetic episodes are of."""
PER_ROW = 112
"""Synthetic episodes of each row of a table of robustness."""
COLUMNS = ("VOC", "error of Φ", "AUC", "false done", "missed", "alarms of a run", "refused")


def run(what: str, **options: Any) -> int:
    """Do one of the words of `robot-stack reward`; returns the exit code.

    Raises:
        StackError: If it cannot be done.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported; more threads are slower here
    words: dict[str, Callable[..., int]] = {
        "eval": _eval,
        "probe": _probe,
        "adapt": _adapt,
        "stages": _stages,
        "prefer": _prefer,
        "write": _write_formulas,
        "serve": _serve,
        "prompt": _prompt,
        "audit": _audit,
    }
    return words[what](**options)


def _eval(
    name: str | None,
    generated: bool,
    model: str | None,
    settings: Path | None,
    out: Path | None,
    episodes: int | None,
    seed: int,
    every: int | None,
    robustness: bool,
    as_json: bool,
) -> int:
    """Evaluate a reward model on labelled episodes."""
    wanted = _wanted(model, settings, every)
    if robustness:
        if not generated or isinstance(wanted, Path):
            raise ConfigError(
                "--robustness is of recorded episodes or a run's model, must be of synthetic ones and a "
                "kind of model: nothing that is recorded can vary; add --generated, and name a kind"
            )
        table = out or _place(None, model, "robustness")
        check_writable(table)
        return _robustness(wanted, episodes, seed, table, as_json=as_json)
    folder = None if generated else _folder_of(name or "")
    path = out or _place(folder, model)
    for file in _files(path):
        check_writable(file)
    found = _evaluated(folder, wanted, episodes, seed)
    judged = "Reward model" if model is None else f"Reward model {model}"
    where = "on synthetic episodes" if folder is None else f"on {folder.resolve().name}"
    result, page = _write(path, found, f"{judged} {where}")
    if as_json:
        print(json.dumps(result))
        return 0
    print(_summary(result))
    print(f"Figures: {path}")
    print(f"Report: {page}")
    audited = folder is not None and RunPaths(folder).resolved.is_file()
    print(f"Next: open it{f', or robot-stack reward audit {name}' if audited else ''}")
    return 0


def _robustness(wanted: Wanted | None, episodes: int | None, seed: int, out: Path, *, as_json: bool) -> int:
    """Print the table of a model's generalisation row by row, and keep what is there so far."""
    from robot_stack.config.resolve import load_run
    from robot_stack.learner.host_memory import keep_freed_memory
    from robot_stack.learner.reward.generalisation import evaluate_generalisation

    keep_freed_memory()
    each = PER_ROW if episodes is None else episodes
    about, rows = evaluate_generalisation(
        lambda words: load_run(TASK, list(words)), wanted=wanted, episodes=each, seed=seed, say=say_progress
    )
    said = {"model": about.model.name, "version": about.model.version, "task": TASK, "every": about.every}
    found: dict[str, Any] = {}
    if not as_json:
        print(f"| varied | {' | '.join(COLUMNS)} |\n| --- {'| --- ' * len(COLUMNS)}|", flush=True)
    for name, row in rows:
        found[name] = row.document()
        write_durable(out, json.dumps({**said, "seed": seed, "episodes": each, "rows": found}, indent=2) + "\n")
        if not as_json:
            print(_generalised(found[name]), flush=True)
    print(out.read_text() if as_json else f"Figures: {out}")
    return 0


def _generalised(row: dict[str, Any]) -> str:
    """Return a row of the table."""

    def counted(rate: dict[str, Any]) -> str:
        return f"{rate['count']} of {rate['n']}" if rate["n"] else "-"

    cells = [row["varied"], *(_number(row[name]["value"]) for name in ("voc", "mae", "auc"))]
    cells += [counted(row["false_done"]), counted(row["missed"])]
    cells.append("-" if row["alarms"] is None else ", ".join(row["alarms"]) or "none")
    cells.append(f"{row['refused']} refused: {row['why']}" if row["refused"] else "none")
    return f"| {' | '.join(cells)} |"


def _folder_of(name: str) -> Path:
    """Return the folder of a run, or of a dataset."""
    for candidate in (RUNS / name, Path(name)):
        if StorePaths(candidate).identity.is_file() and not RunPaths(candidate).resolved.is_file():
            return candidate
    return find_folder(name)


def _store_root(folder: Path) -> Path:
    own = RunPaths(folder).store
    return own.root if own.identity.is_file() else folder


def _place(folder: Path | None, model: str | None, what: str = "eval") -> Path:
    """Return where the figures go that nobody gave a place: one file a model."""
    name = f"reward_{what}.json" if model is None else f"reward_{what}_{Path(model).name}.json"
    return Path(name) if folder is None else folder / name


def _files(path: Path) -> tuple[Path, Path, Path]:
    """Return where figures, table and page go if the figures go to `path`."""
    table, page = path.with_suffix(".csv"), path.with_suffix(".html")
    if path in (table, page):
        raise ConfigError(f"--out is {path}, must be another file than table and page beside it; let it end in .json")
    return path, table, page


def _wanted(model: str | None, settings: Path | None, every: int | None) -> Wanted | Path | None:
    """Return the model that is meant, or the folder of the run whose own it is; None is the usual one."""
    from robot_stack.learner.reward.judged_model import Wanted, check_name, read_settings

    if model is None and settings is None and every is None:
        return None
    if model is None:
        if settings is not None:
            raise ConfigError(f"settings {settings} are of no model, must be of one; name it with --model")
        return Wanted(name="", every=every)
    if any(RunPaths(place).resolved.is_file() for place in (RUNS / model, Path(model))):
        return find_folder(model)
    check_name(model)
    return Wanted(name=model, settings=None if settings is None else read_settings(settings), every=every)


def _evaluated(folder: Path | None, wanted: Wanted | Path | None, episodes: int | None, seed: int) -> Evaluated:
    from robot_stack.config.resolve import load_run
    from robot_stack.datasets.store_view import open_store
    from robot_stack.learner.host_memory import keep_freed_memory
    from robot_stack.learner.reward.evaluation import evaluate_dataset, evaluate_generated, evaluate_run
    from robot_stack.learner.reward.synthetic import FULL

    keep_freed_memory()
    if folder is not None and (isinstance(wanted, Path) or not RunPaths(folder).resolved.is_file()):
        if wanted is None:
            raise ConfigError(f"reward model for {folder} is missing, must be named: a dataset has none; add --model")
        store = open_store(_store_root(folder))
        return evaluate_dataset(
            folder, store.spec, store.text, wanted=wanted, episodes=episodes, seed=seed, say=say_progress
        )
    if isinstance(wanted, Path):
        raise ConfigError(f"reward model is run {wanted}, must be named for synthetic episodes; name its kind")
    if folder is not None:
        return evaluate_run(folder, wanted=wanted, episodes=episodes, seed=seed, say=say_progress)
    count = FULL if episodes is None else episodes
    return evaluate_generated(load_run(TASK), wanted=wanted, episodes=count, seed=seed, say=say_progress)


def _write(path: Path, found: Evaluated, title: str) -> tuple[dict[str, Any], Path]:
    from reward_models.evaluate.document import document, table
    from robot_stack.report.reward_page import write_reward_page

    figures, rows, page = _files(path)
    result = document(found.report, fit_s=found.fit_s)
    for file, text in ((figures, json.dumps(result, indent=2) + "\n"), (rows, table(found.report))):
        write_durable(file, text)
    page = write_reward_page(
        page, found.report, found.episodes, title=title, fit_s=found.fit_s, left_out=found.left_out
    )
    return result, page


def _summary(result: dict[str, Any]) -> str:
    about, done, cost = (result["sections"][name] for name in ("about", "discrimination", "cost"))
    counts = about["episodes"]
    false_done, missed = done["false_done"], done["missed"]
    last = ", ".join(f"{name} {value:.2f}" for name, value in result["final_phi"].items() if value is not None)
    beaten = [name for name, better in result["beats_null"].items() if better]
    lines = [
        f"{about['model']}: {about['verdict']}, on {counts['scored']} episodes, {counts['success']} of them successes",
        f"  VOC {_number(result['voc_success'])}, reversed {_number(result['voc_reversed'])}, "
        f"error {_number(result['mae'])}, AUC {_number(result['auc'])}",
        f"  Φ of the last frame: {last}",
        f"  false done {false_done['count']} of {false_done['n']} (at most {100 * false_done['high']:.1f} %), missed "
        f"{missed['count']} of {missed['n']}",
        f"  beats {', '.join(beaten) or 'no null model'}; {'causal' if result['causal'] else 'reads the future'}",
        f"  {result['ms_per_frame']:.1f} ms a frame, 95 % of them within {cost['ms_p95']:.1f} ms, "
        f"{result['ms_per_frame_batched']:.2f} ms in a batch; {cost['queries_per_frame']:.1f} questions a frame",
    ]
    if about["seen"] is not None:
        lines.insert(1, f"  {about['seen']['words']}")
    if about["unreadable"]:
        lines.append(f"  {100 * about['unreadable']:.1f} % of the frames could not be read and were interpolated")
    if about["refused"]:
        first, why = next(iter(about["refused"].items()))
        lines.append(f"  not scored: {len(about['refused'])} episodes, {first}: {why}")
    lines += [
        f"  {kind.replace('_', ' ')}: false done {of['false_done']['count']} of {of['false_done']['n']}, last Φ "
        f"{_number(of['final_phi']['value'])}{', a kind it never saw' if of['unseen'] else ''}"
        for kind, of in result["sections"]["kinds"].items()
    ]
    lines += [
        f"  not met: {c['name']}: {c['found']}, {c['wanted']}"
        for c in result["sections"]["checks"]
        if c["passed"] is False
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _probe(
    target: str, model: str | None, served: str, settings: Path | None, name: str | None, seed: int, as_json: bool
) -> int:
    """Ask a model about three known clips, and say whether it answers sensibly; 1 if not."""
    from robot_stack.learner.reward.judged_model import Wanted, check_name, read_settings
    from robot_stack.learner.reward.probing import at_url, probe_model

    given = None if settings is None else read_settings(settings)
    if "://" in target:
        if model is None:
            raise ConfigError(f"kind of the model at {target} is missing, must be named; add --model NAME")
        check_name(model)
        wanted = Wanted(name=model, settings=at_url(target, model=model, served=served, settings=given or {}))
    elif model is not None or served:
        raise ConfigError(f"--model and --served are given with {target!r}, must go with a URL; leave them out")
    else:
        check_name(target)
        wanted = Wanted(name=target, settings=given)
    found = probe_model(wanted, None if name is None else find_folder(name), seed=seed, say=say_progress)
    if as_json:
        print(json.dumps(found.document()))
    else:
        print(found.sentence)
    return 0 if found.sensible else 1


def _adapt(name: str, demo: str, episode: str | None, as_json: bool) -> int:
    """Adapt a run's embedded model by one demonstration."""
    from robot_stack.learner.reward.adaptation import adapt_run

    found = adapt_run(
        find_folder(name), _folder_of(demo), episode, on_step=lambda n, of, loss: say_progress("step", n, of)
    )
    if as_json:
        print(json.dumps(asdict(found)))
        return 0
    print(f"reward model {found.version} of {name} is {found.start}, adapted by {found.episode}")
    print(f"Φ at the end of that: {found.before:.2f} before, {found.after:.2f} now, which it was trained on")
    print("Next: robot-stack reward eval on episodes of the changed scene, before anything is judged by it")
    return 0


def _stages(name: str, as_json: bool) -> int:
    """Propose the stages of a run's successes that nobody has marked."""
    from robot_stack.learner.reward.proposals import propose_stages

    found = propose_stages(find_folder(name))
    if as_json:
        print(json.dumps(asdict(found)))
        return 0
    for episode_id, starts in found.starts.items():
        cut = f"stages begin at frames {', '.join(map(str, starts))}" if starts else "shows no stages"
        print(f"{episode_id}: {cut}")
    print(f"{len(found.marked)} successes are marked by an operator and stay as they are")
    print(f"Next: robot-stack data view {name}, and accept what fits; until then nothing is learned from it")
    return 0


def _prefer(name: str, model: str, settings: Path | None, pairs: int, seed: int, as_json: bool) -> int:
    """Ask a large model which of two recorded moments got further, and log its answers."""
    from robot_stack.learner.reward.judged_model import Wanted, check_name, read_settings
    from robot_stack.learner.reward.preferring import ask_preferences

    check_name(model)
    wanted = Wanted(name=model, settings=None if settings is None else read_settings(settings))
    found = ask_preferences(_folder_of(name), wanted, pairs=pairs, seed=seed, say=say_progress)
    if as_json:
        print(json.dumps(asdict(found)))
        return 0
    print(f"{found.by} answered {found.answered} pairs, {found.same} of them as the same")
    print(f"{found.contradicted} it answered otherwise the other way round, {found.unreadable} could not be read")
    print("Next: the embedded model learns from them at its next fit; the answers of people go before these")
    return 0


def _write_formulas(name: str, settings: Path, out: Path, rounds: int, as_json: bool) -> int:
    """Let a language model write progress and success of a run's task as formulas."""
    from pydantic import ValidationError
    from ruamel.yaml import YAML

    from reward_models.vlm.config import ServerSettings
    from robot_stack.learner.reward.judged_model import read_settings
    from robot_stack.learner.reward.writing import write_formulas

    if out.exists():
        raise ConfigError(f"file is {out}, must be a new one; move it away, or take another name")
    try:
        server = ServerSettings.model_validate(read_settings(settings).get("server"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, ("server", *first["loc"])))
        raise ConfigError(
            f"{place} of {settings}: {first['msg']}; must be like "
            "server: {url: http://127.0.0.1:8000/v1, model: NAME}"
        ) from None
    folder = find_folder(name)
    check_writable(out)
    found = write_formulas(folder, server, rounds=rounds, say=say_progress)
    text = io.StringIO()
    YAML().dump(found.formulas.model_dump(), text)
    write_durable(out, text.getvalue())
    if as_json:
        print(json.dumps(asdict(found) | {"formulas": found.formulas.model_dump()}, default=str))
        return 0
    print(text.getvalue(), end="")
    print(f"on {found.episodes} recorded episodes {found.tried.sentence}")
    print(f"{found.refused} of {found.asked} answers could not be taken")
    print(f"Settings: {out}")
    print(f"Next: read them, then robot-stack reward eval {name} --model expression --settings {out}")
    return 0


def _serve(checkpoint: str, adapter: list[str], port: int, device: str | None, accept_license: str | None) -> int:
    """Serve a checkpoint until the process is interrupted."""
    from reward_models.vlm.config import WeightsSettings
    from reward_models.vlm.in_process import InProcess
    from reward_models.vlm.prompt import Backend
    from reward_models.vlm.serve import ModelServer

    adapters = dict(_named_folder(text) for text in adapter)
    weights = WeightsSettings(model=checkpoint, device=device)
    backends: dict[str, Backend] = (
        dict(InProcess.load_adapters(weights, adapters, accepted=accept_license))
        if adapters
        else {checkpoint: InProcess.load(weights, accepted=accept_license)}
    )
    server = ModelServer(backends, port)
    print(f"serving {', '.join(backends)} at {server.url}", flush=True)
    print("It answers one request after the other: set concurrency: 1 beside the url in server", flush=True)
    print(f"Next: robot-stack reward probe {server.url} --model NAME; from another machine, through ssh -L", flush=True)
    try:
        server.run()
    except KeyboardInterrupt:
        return 0
    finally:
        server.close()
    return 0


def _prompt(family: str, source: Path, out: Path) -> int:
    """Write the wording that a model was published with as a prompt file."""
    from reward_models.vlm.published import published_prompt

    if out.exists():
        raise ConfigError(f"file is {out}, must be a new one; move it away, or take another name")
    write_durable(out, published_prompt(family, source))
    print(f"Prompt file: {out}")
    print(f"Next: read it, then set prompt_file: {out} among the settings of {family}")
    return 0


def _named_folder(text: str) -> tuple[str, str]:
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise ConfigError(f"adapter is {text!r}, must be NAME=FOLDER")
    return name, folder


def _audit(name: str, as_json: bool) -> int:
    """Grade a run's episodes by Φ, and its reward model by what was true."""
    from robot_stack.report.audit_page import JSON, write_audit

    folder = find_folder(name)
    page = write_audit(folder)
    result = json.loads((folder / JSON).read_text())
    if as_json:
        print(json.dumps(result))
        return 0
    for group, found in result["opd"].items():
        false_done, missed = result["false_done"].get(group), result["missed"].get(group)
        words = (
            ""
            if false_done is None
            else (f", false done {false_done['count']} of {false_done['n']}, missed {missed['count']} of {missed['n']}")
        )
        print(
            f"{group}: {found['episodes']} episodes, highest Φ {_number(found['peak']['value'])}, directness "
            f"{_number(found['path']['value'])}, regret {_number(found['regret']['value'])}{words}"
        )
    print(f"Report: {page}")
    print("Next: open it")
    return 0
