"""What a CUDA graph does, on the CPU: repeats the operations of a recording on the tensors it was recorded on.

Python that decided something, a number that was read out of a tensor, a tensor that has moved since: whatever a graph
would get wrong is got wrong here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from policies.graphs import Compute, Metrics

FORBIDDEN = {"aten::_local_scalar_dense", "aten::nonzero", "aten::lift_fresh", "aten::equal", "aten::randn"}
"""Operations that make the host wait for a GPU, send it something, or draw anew."""


class OpRecorder:
    """A `policies.graphs.Recorder` without a GPU."""

    def __init__(self) -> None:
        self.recordings = 0

    def warm_up(self, compute: Compute, *parts: Any) -> Metrics:
        return compute(*parts)

    def record(self, compute: Compute, *parts: Any) -> Callable[[], Metrics]:
        """Records without computing: state is as it was before."""
        self.recordings += 1
        ops = _Ops()
        with ops:
            metrics = compute(*parts)
        ops.undo()

        def repeat() -> Metrics:
            ops.repeat()
            return {name: value.clone() for name, value in metrics.items()}

        return repeat


class _Ops(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        assert name not in FORBIDDEN, f"{name} cannot be part of a graph"
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tree_leaves(value):
                    self._before.setdefault(tensor.data_ptr(), (tensor, tensor.detach().clone()))
        out = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self._calls.append((func, args, kwargs or {}, made))
        return out

    @torch.no_grad()
    def undo(self) -> None:
        """As it was before the first writing operation on each tensor."""
        for tensor, value in self._before.values():
            tensor.copy_(value)

    @torch.no_grad()
    def repeat(self) -> None:
        for func, args, kwargs, made in self._calls:
            again = [leaf for leaf in tree_leaves(func(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
            for place, value in zip(made, again, strict=True):
                if place.data_ptr() != value.data_ptr():
                    place.copy_(value)
