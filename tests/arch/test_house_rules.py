"""Rules of the house that no linter knows. Each is first shown something that breaks it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.arch.source_tree import CODE, PACKAGES, ROOT, calls, imported, python_files, tree, written_files

Rule = Callable[[ast.AST], Iterator[str]]

PICKLES = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve")
MACHINE_PATH = re.compile(r"(?<![\w.~}$/:-])/(?:work|root|home/\w+|Users/\w+|opt/\w+)(?:/|\b)")


def pickles(module: ast.AST) -> Iterator[str]:
    yield from (name for name in imported(module) if name.split(".")[0] in PICKLES)
    for name, call in calls(module):
        if any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in call.keywords):
            yield name


def unsafe_loads(module: ast.AST) -> Iterator[str]:
    for name, call in calls(module):
        safe = any(k.arg == "weights_only" and ast.unparse(k.value) == "True" for k in call.keywords)
        if name == "torch.load" and not safe:
            yield name


def prompts(module: ast.AST) -> Iterator[str]:
    yield from (name for name, _ in calls(module) if name in ("input", "getpass.getpass", "builtins.input"))


def sleeps(module: ast.AST) -> Iterator[str]:
    yield from (name for name, _ in calls(module) if name.split(".")[-1] == "sleep")


def shells(module: ast.AST) -> Iterator[str]:
    for name, call in calls(module):
        if name == "os.system" or any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in call.keywords):
            yield name


OLD_CLASSES = (
    "Trust Ledger Turns HelpProtocol Team Recorded Chance BothWays ConfirmedModel Desk Deeds Seats Courier Ear Senders "
    "Wish ArmFace Word"
)
OLD_NAMES = {*OLD_CLASSES.split(), "eyes", "nearer", "seats", "trust_of", "open_word", "practised_age_s"}
"""Names that have given way to the field's: RewardMonitor, EpisodeStatistics, OperatorLock and so on."""


def identifiers(module: ast.AST) -> Iterator[str]:
    """Every name that a module defines, imports, passes or reads, as written."""
    for node in ast.walk(module):
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def old_names(module: ast.AST) -> Iterator[str]:
    yield from (name for name in identifiers(module) if name.lstrip("_") in OLD_NAMES)


CONTROL = ("robot_stack/control", "robot_stack/sensing")
RULES: dict[str, tuple[Rule, tuple[str, ...], str, tuple[str, ...]]] = {
    "nothing is pickled": (pickles, CODE, "import pickle", PICKLES),
    "no array is loaded as pickle": (pickles, CODE, "np.load(path, allow_pickle=True)", ("allow_pickle",)),
    "torch.load reads weights only": (unsafe_loads, CODE, "torch.load(path, weights_only=False)", ("load",)),
    "nothing waits for a typed answer": (prompts, PACKAGES, "answer = input('go on?')", ("input", "getpass")),
    "control never sleeps": (sleeps, CONTROL, "time.sleep(0.1)", ("sleep",)),
    "no shell is started": (shells, CODE, "subprocess.run(line, shell=True)", ("system", "shell")),
    "no old name comes back": (old_names, CODE, "self._seats = Seats()", tuple(OLD_NAMES)),
}
"""Each with where it holds, what breaks it, and words without one of which a file cannot break it."""


def broken_by(name: str, text: str, parsed: Callable[[], ast.AST]) -> list[str]:
    """Return what breaks a rule in a file; one without any of its words is not read further."""
    rule, _, _, words = RULES[name]
    return list(rule(parsed())) if any(word in text for word in words) else []


@pytest.mark.parametrize("name", RULES)
def test_rule_notices_what_breaks_it(name: str) -> None:
    broken = RULES[name][2]
    assert broken_by(name, broken, lambda: ast.parse(broken))


@pytest.mark.parametrize("name", RULES)
def test_rule_holds_everywhere(name: str) -> None:
    files = python_files(*RULES[name][1])
    assert files
    broken = {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := broken_by(name, path.read_text(), lambda path=path: tree(path)))  # type: ignore[misc]
    }
    assert not broken


@pytest.mark.parametrize("text", ["see /work/x", "cd /root", '"/home/ann/runs"', "=/opt/wheels", "/Users/ann/runs"])
def test_path_of_a_machine_is_noticed(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["docs/work/x", "runs/NAME", "/dev/shm", "~/root", "robot/work", "https://a.b/work"])
def test_other_paths_are_none_of_a_machine(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): match.group()
        for path in written_files()
        if (match := MACHINE_PATH.search(path.read_text(errors="replace")))
    }
    assert not found


MOST_MODULES = 25
"""A folder that somebody opens shows no more modules than this, `__init__` aside."""


def crowded(files: Iterable[Path]) -> dict[str, int]:
    """Return the folders with too many modules, and how many these are."""
    counts = Counter(str(path.parent) for path in files if path.name != "__init__.py")
    return {folder: count for folder, count in counts.items() if count > MOST_MODULES}


def test_a_crowded_folder_is_noticed() -> None:
    few = [Path("nodes/__init__.py"), *(Path(f"nodes/m{i}.py") for i in range(MOST_MODULES)), Path("nodes/tools/m.py")]
    assert crowded(few) == {}
    assert crowded([*few, Path("nodes/more.py")]) == {"nodes": MOST_MODULES + 1}


def test_no_folder_is_crowded() -> None:
    assert not crowded(path.relative_to(ROOT) for path in python_files(*PACKAGES))


def test_every_module_says_what_it_is() -> None:
    files = [p for p in python_files(*PACKAGES) if p.stat().st_size and not p.name.endswith("_pb2.py")]
    assert files
    assert not [str(path.relative_to(ROOT)) for path in files if not ast.get_docstring(tree(path))]


PREPOSITIONS = "of as by in from with for to at on after before while until into since under between without like per"
QUESTIONS = "what which whose who how whether why where when same shape not only then and or but also"
FIRST = {*PREPOSITIONS.split(), *QUESTIONS.split()}
"""No sentence that says what a thing is or does begins with one of these."""


def fragment(first_line: str) -> bool:
    """Return whether the first line of a docstring leaves out what it is about."""
    words = re.findall(r"[A-Za-z_`']+", first_line)
    return not words or words[0].lower() in FIRST or len(words) < 4


@pytest.mark.parametrize("text", ["Of one run.", "As sent.", "Same as above.", "What it says.", "Shape (J,)."])
def test_a_fragment_is_noticed(text: str) -> None:
    assert fragment(text)


@pytest.mark.parametrize("text", ["Return the rows of a run.", "A bus of servos that share one cable."])
def test_a_sentence_is_none(text: str) -> None:
    assert not fragment(text)


def test_first_lines_of_docstrings_are_sentences() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    files = [path for path in python_files(*PACKAGES) if not path.name.endswith("_pb2.py")]
    nodes = [(path, node) for path in files for node in ast.walk(tree(path)) if isinstance(node, kinds)]
    told = [(path, text.split("\n\n")[0]) for path, node in nodes if (text := ast.get_docstring(node))]
    assert len(told) > 3000
    bad = [f"{path.relative_to(ROOT)}: {text}" for path, text in told if fragment(text)]
    assert len(bad) < 0.02 * len(told), bad
