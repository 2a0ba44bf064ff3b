"""The parts that other pip packages bring: found by their entry points, imported when a run names them.

A package registers a part with a line `name = "module:attribute"` below one of the groups of `KINDS`; built-in parts
are registered by the same kind of reference. Names are listed without an import, so that a machine which lacks the
libraries of a part lists it all the same, and a broken package disturbs no run that does not name its parts.
docs/adding.md has a package with one part of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from robot_stack.types.errors import ConfigError

CONFIGS = "robot_stack.hardware_configs"
"""Group of folders of YAML files: `name = "package.folder"`."""

OPTIONAL = frozenset({"torch", "mujoco"})
"""Libraries that the machine of a robot may lack; a part that needs one is not broken there."""

ConfigT = TypeVar("ConfigT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of part that packages register.

    Attributes:
        what: Its name in messages.
        group: Its entry points.
        builtin: Name -> "module:attribute" of each part that comes with this package.
    """

    what: str
    group: str
    builtin: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all parts of this kind, sorted; nothing is imported."""
        return tuple(sorted({*self.builtin, *(entry.name for entry in self.entries())}))

    def entries(self) -> EntryPoints:
        """Return what other packages register."""
        return _declared()[self.group]

    def entry(self, name: str, taken: tuple[str, ...] = ()) -> EntryPoint:
        """Return the one entry of a name.

        Args:
            name: As the files have it.
            taken: Names of this kind that are built in otherwise.

        Raises:
            ConfigError: If nobody registers it, or more than one do.
        """
        claims = sorted(self.entries().select(name=name), key=package_of)
        own = name in self.builtin or name in taken
        if len(claims) + own > 1:
            owners = [*(["robot-stack"] if own else []), *(package_of(entry) for entry in claims)]
            raise ConfigError(
                f"{self.what} {name!r} is registered by {' and by '.join(owners)}, must be by one package; rename it "
                f"in the entry points of {package_of(claims[-1])}, or uninstall that"
            )
        if claims:
            return claims[0]
        if name in self.builtin:
            return EntryPoint(name, self.builtin[name], self.group)
        legal = sorted({*self.names, *taken})
        near = get_close_matches(name, legal, n=1, cutoff=0.6)
        remedy = f"did you mean {near[0]!r}?" if near else "correct the name, or install the package that brings it"
        raise ConfigError(f"{self.what} is {name!r}, must be one of {', '.join(legal) or '(none yet)'}; {remedy}")


ROBOTS = Kind(what="robot backend", group="robot_stack.robots")
CAMERAS = Kind(what="camera backend", group="robot_stack.cameras")
DEVICES = Kind(what="teleop device", group="robot_stack.devices")
ENCODERS = Kind(
    what="encoder",
    group="robot_stack.encoders",
    builtin={
        "embedded": "policies.encoders.registry:EMBEDDED",
        "none": "policies.encoders.registry:NONE",
        "resnet10": "policies.encoders.registry:RESNET10",
        "resnet18": "policies.encoders.registry:RESNET18",
        "timm": "policies.encoders.registry:TIMM",
        "transformers": "policies.encoders.registry:TRANSFORMERS",
    },
)
ALGORITHMS = Kind(
    what="algorithm",
    group="robot_stack.algorithms",
    builtin={
        "rlpd": "policies.registry:RLPD",
        "act": "policies.registry:ACT",
        "bc": "policies.registry:BC",
        "dsrl": "policies.registry:DSRL",
        "dsrl_on_base": "policies.registry:DSRL_ON_BASE",
        "flow_bc": "policies.registry:FLOW_BC",
        "hg_dagger": "policies.registry:HG_DAGGER",
        "qc": "policies.registry:QC",
        "qc_fql": "policies.registry:QC_FQL",
        "cqn": "policies.registry:CQN",
        "cqn_as": "policies.registry:CQN_AS",
        "recap": "policies.registry:RECAP",
        "residual": "policies.registry:RESIDUAL",
        "residual_on_base": "policies.registry:RESIDUAL_ON_BASE",
        "cal_ql": "policies.registry:CAL_QL",
        "jump_start": "policies.registry:JUMP_START",
    },
)
LIVE_REWARD_MODELS = Kind(
    what="live reward model",
    group="robot_stack.live_reward_models",
    builtin={
        "expression": "reward_models.live:EXPRESSION",
        "otr": "reward_models.live:OTR",
        "progress": "reward_models.live:PROGRESS",
    },
)
REWARD_MODELS = Kind(
    what="reward model",
    group="robot_stack.reward_models",
    builtin={
        "clip": "reward_models.vlm.registry:CLIP",
        "grm": "reward_models.vlm.registry:GRM",
        "lrm": "reward_models.vlm.registry:LRM",
        "roboreward": "reward_models.vlm.registry:ROBOREWARD",
        "vlac": "reward_models.vlm.registry:VLAC",
        "yesno": "reward_models.vlm.registry:YESNO",
    },
)
TASKS = Kind(
    what="simulated task",
    group="robot_stack.tasks",
    builtin={
        "cable_plug": "sim.cell:CABLE_PLUG",
        "drawer": "sim.cell:DRAWER",
        "peg_insert": "sim.cell:PEG_INSERT",
        "peg_two_sockets": "sim.cell:PEG_TWO_SOCKETS",
        "pick_insert": "sim.cell:PICK_INSERT",
        "two_arm_insert": "sim.cell:TWO_ARM_INSERT",
    },
)
KINDS = (ROBOTS, CAMERAS, DEVICES, ENCODERS, ALGORITHMS, LIVE_REWARD_MODELS, REWARD_MODELS, TASKS)


@dataclass(frozen=True, kw_only=True)
class Part(Generic[ConfigT]):
    """The base of what is registered; each kind adds how its part is built.

    Without slots, with which Python 3.11 fails on `Part[Config](...)`.

    Attributes:
        config: Model of the part's settings.
    """

    config: type[ConfigT]


def imported(reference: str) -> Callable[[], Any]:
    """Return a function that imports an object and returns it: what needs a large library is left until it is called.

    Args:
        reference: "module:attribute", as in an entry point.
    """
    return EntryPoint("", reference, "").load


PartT = TypeVar("PartT")
BuildersT = TypeVar("BuildersT")


class Registry(Mapping[str, PartT]):
    """The parts of one kind by name, each imported when it is asked for."""

    def __init__(self, kind: Kind, part: type[PartT], taken: tuple[str, ...] = ()) -> None:
        """Remember what to look for; nothing is read or imported yet.

        Args:
            kind: Of the parts.
            part: Type that each must have.
            taken: Names of this kind that are built in otherwise.
        """
        self._kind, self._part, self._taken = kind, part, taken

    def __getitem__(self, name: str) -> PartT:
        """Import and return the part of a name.

        Raises:
            ConfigError: If there is none, two packages register it, it cannot be imported, or is of another type.
            ModuleNotFoundError: If it needs a library of `OPTIONAL` that is missing.
        """
        entry = self._kind.entry(name, self._taken)
        return self._had(entry, "imported", entry.load, self._part)

    def builders(self, name: str, wanted: type[BuildersT]) -> BuildersT:
        """Return what builds the part of a name.

        Raises:
            ConfigError: As for the part, or if its `builders` raises or returns something else.
            ModuleNotFoundError: If it needs a library of `OPTIONAL` that is missing.
        """
        part: Any = self[name]
        return self._had(self._kind.entry(name, self._taken), "built", lambda: part.builders(), wanted)

    def _had(self, entry: EntryPoint, done: str, load: Callable[[], Any], wanted: type[BuildersT]) -> BuildersT:
        told = f"{self._kind.what} {entry.name!r} of {package_of(entry)}"
        remedy = f"repair or uninstall {package_of(entry)}, or name another {self._kind.what}"
        try:
            found = load()
        except Exception as error:  # a stranger's code: whatever it raises, the message names its package
            if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
                raise
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ConfigError(f"{told} cannot be {done} from {entry.value} ({why}); {remedy}") from error
        if not isinstance(found, wanted):
            must = f"{wanted.__module__}.{wanted.__name__}"
            raise ConfigError(f"{told} is {type(found).__name__} at {entry.value}, must be a {must}; {remedy}")
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether somebody registers that name."""
        return name in self._kind.names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; nothing is imported."""
        return iter(self._kind.names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._kind.names)


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that registers an entry."""
    return "robot-stack" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def config_folders() -> tuple[Path, ...]:
    """Return the folders of YAML files that other packages name, in the packages' order; nothing is imported.

    One that its package lacks is among them: whoever finds no file of a name says where it was looked for.
    """
    entries = sorted(_declared()[CONFIGS], key=lambda entry: (package_of(entry), entry.name))
    return tuple(dict.fromkeys(folder for entry in entries for folder in _folders(entry)))


def _folders(entry: EntryPoint) -> Iterator[Path]:
    top, *rest = entry.value.split(".")
    spec = find_spec(top)  # of the top package alone, which imports nothing
    for place in () if spec is None else spec.submodule_search_locations or ():
        yield Path(place, *rest)


@cache
def _declared() -> Mapping[str, EntryPoints]:
    """Return group -> entry points of all installed packages; read once, as it takes 20 ms."""
    found = entry_points()
    return {group: found.select(group=group) for group in (*(kind.group for kind in KINDS), CONFIGS)}
