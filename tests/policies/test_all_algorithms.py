"""What every algorithm in the registry must do; a new one is tested by being registered."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from policies.encoders.activation import NormTanh
from policies.learner import LearnerSpec, TensorBatch, WatchesEpisodes
from policies.registry import ALGORITHMS
from policies.rlpd.config import RLPDConfig
from robot_stack.learner.update_loop import Governor
from tests.policies.small_task import SPEC, random_batch, through_a_file

SMALL: dict[str, dict[str, Any]] = {
    "rlpd": {},
    "act": {"chunk": 1},
    "bc": {},
    "flow_bc": {"flow_steps": 3, "chunk": 1, "replan": 1},
    "dsrl": {"flow_steps": 3, "chunk": 1, "replan": 1, "base_updates": 3, "pretrain_updates": 5},
    "qc": {"flow_steps": 3, "chunk": 1, "replan": 1, "candidates": 4, "target_candidates": 2},
    "qc_fql": {"flow_steps": 3, "chunk": 1, "replan": 1},
    "recap": {"flow_steps": 3, "chunk": 1, "replan": 1},
    "cqn": {"atoms": 11, "levels": 2},
    "cqn_as": {"atoms": 11, "levels": 2, "chunk": 1},
    "dsrl_on_base": {"chunk": 1},
    "hg_dagger": {},
    "residual": {"base_updates": 3, "pretrain_updates": 5},
    "residual_on_base": {},
    "cal_ql": {"pretrain_updates": 5, "cql_actions": 2},
    "jump_start": {"guide_updates": 3, "pretrain_updates": 5, "guide_steps": 4, "window": 1, "stages": 2},
}
TWO_ARMS = replace(SPEC, actions=5, grippers=(1, 4))
NOISE = 2
"""Numbers of noise of a base that is steered."""
IN_CHUNKS = ("act", "cal_ql", "cqn", "cqn_as", "dsrl", "flow_bc", "jump_start", "qc", "qc_fql", "recap", "rlpd")


@dataclass(frozen=True, kw_only=True)
class Case:
    """An algorithm on a task."""

    name: str
    spec: LearnerSpec = SPEC
    chunk: int = 1

    def learner(self, seed: int = 0) -> Any:
        return make(self.name, self.spec, seed, **{"chunk": self.chunk} if self.chunk > 1 else {})

    def batch(self, number: int) -> TensorBatch:
        return batch(number, self.sizes, self.chunk)

    @property
    def sizes(self) -> LearnerSpec:
        return sized(self.name, self.spec)


CASES = {
    **{f"{name}, one arm": Case(name=name) for name in sorted(ALGORITHMS)},
    **{f"{name}, two arms with grippers": Case(name=name, spec=TWO_ARMS) for name in sorted(ALGORITHMS)},
    **{f"{name}, chunks": Case(name=name, chunk=3) for name in IN_CHUNKS},
}


each_or_two_at_every_save = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in ("rlpd, one arm", "qc, chunks") else pytest.mark.long)
        for name, case in CASES.items()
    ],
)


def make(name: str, spec: LearnerSpec = SPEC, seed: int = 0, **settings: Any) -> Any:
    algorithm = ALGORITHMS[name]
    config = algorithm.config(**{"head": 8, "hidden": (16,)} | SMALL[name] | settings)
    return algorithm.builders().learner(sized(name, spec), config, seed=seed)


def sized(name: str, spec: LearnerSpec) -> LearnerSpec:
    """The sizes of a run of that algorithm: with what the base says, where it steers one."""
    if not ALGORITHMS[name].steers_base:
        return spec
    mean, std = (torch.full((NOISE + 1 + spec.actions,), value) for value in (0.0, 1.0))
    proprio = torch.cat([spec.proprio_mean, mean]), torch.cat([spec.proprio_std, std])
    return replace(spec, noise=NOISE, proprio_mean=proprio[0], proprio_std=proprio[1])


def batch(number: int, spec: LearnerSpec = SPEC, chunk: int = 1) -> TensorBatch:
    """Rows with a return, gripper entries where the task has grippers, and a base that speaks where it is steered.

    Half of the later ticks are human.
    """
    made = random_batch(number)
    rows, rng = len(made.reward), np.random.default_rng(number)
    action = torch.from_numpy(np.tanh(rng.normal(size=(rows, chunk * spec.actions))).astype(np.float32))
    change = torch.from_numpy(rng.random((rows, len(spec.grippers))) < 0.3)
    mc_return = made.reward.clone()
    mc_return[1::3] = torch.nan
    later = torch.from_numpy(rng.random((rows, chunk - 1)) < 0.5)
    human = torch.cat([made.human, later], dim=1)
    label = torch.ones(action.shape, dtype=torch.bool)
    proposed = torch.where(human[:, :1] & (mc_return[:, None] > 0), -action, action)
    seen, after = (_with_base(rng, each, spec) if spec.noise else each for each in (made.proprio, made.next_proprio))
    return replace(
        made,
        proprio=seen,
        next_proprio=after,
        action=action,
        proposed=proposed,
        label=label,
        human=human,
        gripper_change=change,
        mc_return=mc_return,
    )


def _with_base(rng: np.random.Generator, proprio: torch.Tensor, spec: LearnerSpec) -> torch.Tensor:
    """Put behind proprio what a base says: noise, the ticks of its chunk, and its proposal."""
    rows = len(proprio)
    noise, ticks = rng.normal(size=(rows, spec.noise)), rng.integers(0, 4, (rows, 1))
    said = np.concatenate([noise, ticks, np.tanh(rng.normal(size=(rows, spec.actions)))], axis=1)
    return torch.cat([proprio, torch.from_numpy(said.astype(np.float32))], dim=1)


def own_fields(name: str) -> list[str]:
    """Settings that are declared in the module of the algorithm's configuration, but for those of another algorithm."""
    config, others = ALGORITHMS[name].config, [part.config for other, part in ALGORITHMS.items() if other != name]
    declared = [(each, said) for each in config.__mro__ if (said := inspect.get_annotations(each))]
    module = declared[0][0].__module__
    own = [
        said for each, said in declared if each.__module__ == module and (each is declared[0][0] or each not in others)
    ]
    return [field for said in own for field in said if field in config.model_fields]


@pytest.fixture(params=sorted(ALGORITHMS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_metrics_are_finite_scalars_without_gradient(case: Case) -> None:
    learner = case.learner()
    for number in range(8):
        metrics = learner.update(case.batch(number))
        assert metrics
        for value in metrics.values():
            assert value.shape == ()
            assert torch.isfinite(value)
            assert not value.requires_grad
    assert learner.updates == 8
    assert learner.name == case.name


@each_or_two_at_every_save
def test_restored_learner_goes_on_with_identical_losses(case: Case) -> None:
    for stop in (2, 6):  # before and after what is cloned first
        first, other = case.learner(), case.learner(seed=9)
        for number in range(stop):
            first.update(case.batch(number))
        if isinstance(first, WatchesEpisodes):
            first.episode_ended(success=True, alone=True)
        other.load_state_dict(through_a_file(first.state_dict()))
        assert other.updates == stop
        for number in range(stop, stop + 5):
            expected, got = first.update(case.batch(number)), other.update(case.batch(number))
            assert expected.keys() == got.keys()
            assert all(torch.equal(expected[key], got[key]) for key in expected), (stop, number)
        assert all(np.array_equal(first.actor_tensors()[key], value) for key, value in other.actor_tensors().items())


@pytest.mark.long
def test_a_learner_that_starts_from_another_counts_only_the_updates_that_it_is_given(name: str) -> None:
    trained, fresh = make(name), make(name, seed=9)
    for number in range(8):
        trained.update(batch(number, sized(name, SPEC)))
    fresh.load_state_dict({**through_a_file(trained.state_dict()), "updates": 5})
    assert fresh.updates == 5


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"dsrl_on_base"}))  # its weights say noise; the base commands
def test_a_policy_of_weights_that_are_no_numbers_commands_nothing(name: str) -> None:
    learner, builders = make(name), ALGORITHMS[name].builders()
    learner.update(batch(0, sized(name, SPEC)))
    network, rows = builders.policy(sized(name, SPEC), learner.config), batch(99, sized(name, SPEC))
    for weight in network.parameters():
        torch.nn.init.constant_(weight, torch.nan)
    rng = torch.Generator().manual_seed(0)
    action = network.act(rows.features, rows.proprio, tick=50, rng=rng, deterministic=True)
    assert action.isnan().all()


def test_the_guide_that_acts_is_the_finished_clone() -> None:
    learner = make("jump_start", pretrain_updates=50, guide_updates=20)
    for number in range(20):
        learner.update(batch(number))
    acts, cloned = learner._guide.published.state_dict(), learner._guide.policy.state_dict()
    assert all(torch.equal(acts[key], cloned[key]) for key in cloned)


@each_or_two_at_every_save
def test_published_tensors_act_as_the_learners_own_network(case: Case) -> None:
    learner, algorithm = case.learner(), ALGORITHMS[case.name]
    for number in range(7):
        learner.update(case.batch(number))
    network = algorithm.builders().policy(case.sizes, learner.config)
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in learner.actor_tensors().items()}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16, torch.float32}
    network.load_state_dict({key: tensor.float() for key, tensor in tensors.items()})
    rows, rng = case.batch(99), torch.Generator().manual_seed(0)
    for tick in (0, 50):
        action = network.act(rows.features, rows.proprio, tick=tick, rng=rng, deterministic=True)
        assert action.shape == (len(rows.reward), case.chunk * case.spec.actions)
        assert action.abs().max() <= 1.0
    assert network.chunk == case.chunk


@pytest.mark.long
def test_what_is_imitated_is_weighed_row_by_row(case: Case) -> None:
    if ALGORITHMS[case.name].steers_base:
        pytest.skip("it imitates nothing: what acts is the base")
    imitates = {"bc_weight": 1.0} if "bc_weight" in ALGORITHMS[case.name].config.model_fields else {}
    chunk = {"chunk": case.chunk} if case.chunk > 1 else {}
    equal, weighed = (make(case.name, case.spec, **imitates, **chunk) for _ in range(2))
    for number in range(6):
        rows = case.batch(number)
        weight = torch.where(rows.expert, torch.linspace(0.0, 2.0, len(rows.expert)), torch.ones(()))
        equal.update(rows)
        weighed.update(replace(rows, imitation=weight))
    same = [np.array_equal(equal.actor_tensors()[key], value) for key, value in weighed.actor_tensors().items()]
    assert not all(same)


def test_the_margin_around_a_choice_of_a_gripper_is_weighed_too() -> None:
    first, other = (make("rlpd", TWO_ARMS, bc_weight=0.0) for _ in range(2))
    rows = batch(0, TWO_ARMS)
    first.update(rows)
    other.update(replace(rows, imitation=torch.linspace(0.0, 2.0, len(rows.expert))))
    differ = [
        name
        for name, value in first.policy.state_dict().items()
        if not torch.equal(value, other.policy.state_dict()[name])
    ]
    assert differ
    assert all(name.startswith("gripper") for name in differ)


def test_a_cloned_row_of_no_weight_teaches_nothing() -> None:
    for name in ("act", "bc", "flow_bc", "hg_dagger"):
        first, other = make(name), make(name)
        for number in range(3):
            rows = batch(number)
            weight, action = rows.imitation.clone(), rows.action.clone()
            weight[2], action[2] = 0.0, -rows.action[2]
            first.update(replace(rows, imitation=weight))
            other.update(replace(rows, imitation=weight, action=action))
        assert all(np.array_equal(first.actor_tensors()[key], value) for key, value in other.actor_tensors().items())


def test_settings_have_what_the_update_loop_reads(name: str) -> None:
    config = make(name).config
    sampling = config.sampling
    assert 0 < sampling.gamma < 1
    assert 0 <= sampling.expert_fraction <= 1
    assert config.shaping_weight >= 0
    assert config.batch_size > 0
    assert Governor(utd=config.utd, pretrain=config.pretrain_updates).may_update(0, 1)


def test_published_scale_of_proprio_is_exact(name: str) -> None:
    mean, std = torch.linspace(-3.14159, 3.14159, len(SPEC.proprio_mean)), torch.full_like(SPEC.proprio_std, 0.0012345)
    tensors = make(name, replace(SPEC, proprio_mean=mean, proprio_std=std)).actor_tensors()  # a base's part lies behind
    found = [value for key, value in tensors.items() if key.endswith("proprio_mean")]
    assert found
    for value in found:
        np.testing.assert_array_equal(value[: len(mean)], mean.numpy())
    for key, value in tensors.items():
        if key.endswith("proprio_scale"):
            np.testing.assert_array_equal(value[: len(std)], std.reciprocal().numpy())


def test_unknown_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="batch_sise"):
        ALGORITHMS[name].config(batch_sise=3)


def test_algorithm_has_a_page_with_its_source(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "algorithms" / f"{name.replace('_', '-')}.md").read_text()
    assert re.search(r"arXiv:\d{4}\.\d{4,5}|Pomerleau", page)
    assert re.search(r"[Dd]eviation", page)
    missing = [field for field in own_fields(name) if f"`{field}`" not in page]
    assert not missing, f"settings that {page[:20]!r} does not explain: {missing}"


def test_every_field_is_read(name: str) -> None:
    config: Any = ALGORITHMS[name].config
    own = Path(inspect.getfile(config)).parent
    policies = own.parent
    folders = (own, policies / "rlpd", policies / "bc", policies.parent / "robot_stack" / "learner")
    source = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    source += inspect.getsource(config.sampling.fget).replace("self.", "config.")
    unread = [field for field in own_fields(name) if not re.search(rf"\bconfig\.{field}\b", source)]
    assert not unread


@pytest.mark.parametrize("name", sorted(name for name, one in ALGORITHMS.items() if issubclass(one.config, RLPDConfig)))
def test_rlpd_and_its_neighbours_have_the_layers_that_they_are_told_to(name: str) -> None:
    """Only the guide of jump-start keeps its own: it is a clone as `bc` makes it."""
    made = make(name, TWO_ARMS, layers="rlpd", head=0, subset_mean=True)
    own = getattr(made, "_rlpd", made)
    for part in (own.policy, own.critic, own.target):
        assert not [module for module in part.modules() if isinstance(module, NormTanh)]
    for number in range(8):
        metrics = made.update(batch(number, sized(name, TWO_ARMS)))
        assert all(torch.isfinite(value) for value in metrics.values())
