"""A package that is broken, or takes a name that is taken, is named when its part is asked for, and only then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import policies.builders
from policies.encoders.builders import TrunkBuilders
from policies.encoders.registry import ENCODERS
from policies.registry import ALGORITHMS, BC, find_algorithm
from reward_models.live import LIVE_MODELS
from reward_models.live_builders import LiveBuilders
from reward_models.vlm.registry import FAMILIES
from robot_stack import plugins
from robot_stack.cli.checked_run import load_checked
from robot_stack.config.files.library import config_root
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.resolve import load_run
from robot_stack.learner.settings import learning_settings
from robot_stack.types.errors import ConfigError
from sim.cell import TASKS

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lay down a package: its name, its entry points, and the code of its module."""
    monkeypatch.syspath_prepend(tmp_path)

    def lay(package: str, entry_points: str, code: str) -> None:
        about = tmp_path / f"{package}-2.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
        (about / "entry_points.txt").write_text(entry_points)
        (tmp_path / f"{package}.py").write_text(code)
        monkeypatch.delitem(sys.modules, package, raising=False)
        plugins._declared.cache_clear()

    yield lay
    plugins._declared.cache_clear()


def mistake(name: str) -> str:
    def use() -> None:
        load_run("peg_insert", [f"algorithm.name={name}"])
        find_algorithm(name)

    with pytest.raises(ConfigError) as caught:
        use()
    return str(caught.value)


@pytest.mark.parametrize(
    "registry",
    [ALGORITHMS, ENCODERS, LIVE_MODELS, FAMILIES, TASKS],
    ids=["algorithms", "encoders", "live models", "families", "tasks"],
)
def test_every_built_in_part_can_be_had(registry: plugins.Registry[plugins.Part]) -> None:
    assert registry
    for name in registry:
        assert registry[name].config.model_fields or name == "none"


def test_every_built_in_part_can_be_built() -> None:
    for registry, builders in ((ENCODERS, TrunkBuilders), (LIVE_MODELS, LiveBuilders)):
        assert all(isinstance(part.builders(), builders) for part in registry.values())
    for name, algorithm in ALGORITHMS.items():
        builders = algorithm.builders()
        assert builders is getattr(policies.builders, name.upper())
        own = hasattr(builders.policy, "values")
        assert algorithm.has_critics == (builders.critic is not None or own), name


def test_an_unknown_name_lists_those_of_packages_too(install: Install) -> None:
    install("other_pkg", "[robot_stack.algorithms]\nother = other_pkg:PART\n", "")
    assert (
        "must be one of act, bc, cal_ql, cqn, cqn_as, dsrl, dsrl_on_base, flow_bc, hg_dagger, jump_start, other, qc, "
        "qc_fql, recap, residual, residual_on_base, rlpd" in mistake("othre")
    )
    assert "did you mean 'other'?" in mistake("othre")


def test_a_part_is_had_by_its_name(install: Install) -> None:
    install(
        "other_pkg", "[robot_stack.algorithms]\nother = other_pkg:PART\n", "from policies.registry import BC as PART"
    )
    assert load_run("peg_insert", ["algorithm.name=other"]).run.algorithm.name == "other"
    assert find_algorithm("other") is BC


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import surely_absent", "cannot be imported from broken_pkg:PART (ModuleNotFoundError: No module named"),
        ("raise OSError('no licence')", "cannot be imported from broken_pkg:PART (OSError: no licence)"),
        ("OTHER = 1", "cannot be imported from broken_pkg:PART (AttributeError"),
        ("PART = {}", "is dict at broken_pkg:PART, must be a policies.registry.Algorithm"),
    ],
)
def test_a_broken_part_is_refused_with_the_name_of_its_package(install: Install, code: str, said: str) -> None:
    install("broken_pkg", "[robot_stack.algorithms]\nbroken = broken_pkg:PART\n", code)
    assert find_algorithm("rlpd").config  # runs that do not name it go on
    text = mistake("broken")
    assert text.startswith("algorithm 'broken' of broken_pkg 2.0 ")
    assert said in text
    assert "repair or uninstall broken_pkg 2.0, or name another algorithm" in text


LATE = """
from dataclasses import replace
from policies.registry import RLPD
def builders():
    {}
PART = replace(RLPD, builders=builders, has_critics=False)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import surely_absent", "of late_pkg 2.0 cannot be built from late_pkg:PART (ModuleNotFoundError: No module"),
        ("return 7", "of late_pkg 2.0 is int at late_pkg:PART, must be a policies.builders.Builders"),
        ("return RLPD.builders()", "has a critic among its builders and has_critics false, must be true"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is_fitted(install: Install, code: str, said: str) -> None:
    install("late_pkg", "[robot_stack.algorithms]\nlate = late_pkg:PART\n", LATE.format(code))
    run = load_checked("peg_insert", ["algorithm.name=late"])
    with pytest.raises(ConfigError) as refused:
        learning_settings(run)
    assert str(refused.value).startswith("algorithm 'late' ")
    assert said in str(refused.value)


def test_a_part_that_needs_torch_is_not_checked_where_that_is_missing(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    install("heavy_pkg", "[robot_stack.algorithms]\nheavy = heavy_pkg:PART\n", lacks)
    assert load_checked("peg_insert", ["algorithm.name=heavy"]).run.algorithm.name == "heavy"
    assert "not all is checked here: torch is missing; pip install 'robot-stack[learner]'" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"encoder\.settings\.stepz"):  # the other sections are
        load_checked("peg_insert", ["algorithm.name=heavy", "encoder.settings.stepz=3"])


def test_a_name_that_is_built_in_cannot_be_taken(install: Install) -> None:
    install("greedy_pkg", "[robot_stack.algorithms]\nrlpd = greedy_pkg:PART\n", "")
    text = mistake("rlpd")
    assert "algorithm 'rlpd' is registered by robot-stack and by greedy_pkg 2.0, must be by one package" in text
    assert "peg_insert.yaml:" in text or "--set" in text
    assert find_algorithm("bc") is BC


def test_a_name_of_two_packages_is_refused(install: Install) -> None:
    for package in ("one_pkg", "two_pkg"):
        install(package, f"[robot_stack.algorithms]\nsame = {package}:PART\n", "")
    assert "registered by one_pkg 2.0 and by two_pkg 2.0" in mistake("same")


SURE = """
from dataclasses import replace
from reward_models.live import PROGRESS
from reward_models.progress.config import ProgressConfig

class Settings(ProgressConfig):
    part = "sure"

PART = replace(PROGRESS, config=Settings, says_progress=False)
"""


def test_weights_by_progress_are_refused_where_no_reward_model_says_progress(install: Install, tmp_path: Path) -> None:
    install("sure_pkg", "[robot_stack.live_reward_models]\nsure = sure_pkg:PART\n", SURE)
    (tmp_path / "runs").mkdir()
    text = (config_root() / "runs" / "peg_insert.yaml").read_text() + "imitation:\n  weights: progress\n"
    (tmp_path / "runs" / "mine.yaml").write_text(text.replace("name: progress", "name: sure"))
    line = len(text.splitlines())
    with pytest.raises(ConfigError) as refused:
        load_checked("mine", root=tmp_path)
    said = str(refused.value)
    assert f"mine.yaml:{line}:12: run.imitation.weights: input is 'progress' with reward model 'sure'" in said
    assert "must be 'equal'; or take reward model 'progress'" in said
    assert load_checked("mine", ["imitation.weights=equal"], root=tmp_path).run.reward.name == "sure"
    large = "run.reward.rescore={name: vlac, settings: {server: {url: 'http://127.0.0.1:8000/v1', model: any}}}"
    assert load_checked("mine", [large], root=tmp_path).run.imitation.weights == "progress"


ARM = """
from typing import Literal
from robot_stack.config.drivers import DriverRobot
from robot_stack.nodes.drivers.driver import RobotPart

class Arm(DriverRobot):
    backend: Literal["{said}"]

PART = RobotPart(config=Arm, {part})
"""


def test_hardware_whose_settings_say_another_name_is_refused(install: Install) -> None:
    code = ARM.format(said="another", part="driver=lambda *_: None")
    install("arm_pkg", "[robot_stack.robots]\nmine = arm_pkg:PART\n", code)
    with pytest.raises(ConfigError, match=r"settings of robot backend 'mine' are arm_pkg.Arm, must be a subclass of"):
        ROBOTS.model("mine")


def test_an_arm_over_topics_brings_its_driver_and_nothing_else(install: Install) -> None:
    install("arm_pkg", "[robot_stack.robots]\nmine = arm_pkg:PART\n", ARM.format(said="mine", part="arm=print"))
    with pytest.raises(ConfigError, match="parts of Arm with over_topics True must be its driver alone"):
        ROBOTS.model("mine")


def test_an_unknown_backend_lists_those_of_packages_too(install: Install, tmp_path: Path) -> None:
    install("arm_pkg", "[robot_stack.robots]\nmine = arm_pkg:PART\n", "")
    with pytest.raises(ConfigError, match=r"backend: input should be 'sim', .*'mine' \(got 'mien'\)"):
        load_run("peg_insert", ["robot.backend=mien"])


def test_files_of_packages_are_found_and_one_name_is_in_one_package(install: Install, tmp_path: Path) -> None:
    run = (config_root() / "runs" / "peg_insert.yaml").read_text()
    for package in ("first_pkg", "second_pkg"):
        install(package, f"[robot_stack.hardware_configs]\nfiles = {package}_files\n", "")
        folder = tmp_path / f"{package}_files" / "runs"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise RuntimeError('nobody imports this')")
        (folder / f"of_{package}.yaml").write_text(run)
    assert load_run("of_first_pkg").name == "of_first_pkg"
    (tmp_path / "second_pkg_files" / "runs" / "of_first_pkg.yaml").write_text(run)
    with pytest.raises(ConfigError, match=r"of_first_pkg.yaml is in .*, must be in one; uninstall a package"):
        load_run("of_first_pkg")


def test_a_package_without_the_folder_that_it_names_disturbs_no_run(install: Install) -> None:
    install("bare_pkg", "[robot_stack.hardware_configs]\nfiles = bare_pkg.files\n", "")
    assert load_run("peg_insert").name == "peg_insert"
