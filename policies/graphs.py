"""Updates as CUDA graphs: one call launches all kernels of an update, instead of the hundreds that Python makes.

A graph repeats the kernels that were recorded, on the tensors that they were recorded on, and no line of Python. So
what is recorded must be a function of the tensors it is given, and may change only tensors that stay where they are:
weights, averages, the state of optimisers. Whatever Python decides is decided before: it is a tensor that is given,
or another kind of update with a graph of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from robot_stack.types.errors import ConfigError

WARM_UP = 3
"""Updates of a kind before one is recorded: optimisers and libraries allocate in the first ones."""

Metrics = dict[str, Tensor]
Compute = Callable[..., Metrics]
"""Called with dataclasses of tensors; gives scalars."""


class Recorder(Protocol):
    """An object that records an update, so that it can be repeated."""

    def warm_up(self, compute: Compute, *parts: Any) -> Metrics:
        """Compute an update once, in the way in which it will be recorded."""
        ...

    def record(self, compute: Compute, *parts: Any) -> Callable[[], Metrics]:
        """Return a function that repeats `compute` on the very tensors of `parts`; nothing need be computed yet."""
        ...


class CudaRecorder:
    """A recorder of CUDA graphs, on a stream of its own as CUDA asks for."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def warm_up(self, compute: Compute, *parts: Any) -> Metrics:
        """Compute an update once on the recorder's stream."""
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            metrics = compute(*parts)
        outside.wait_stream(self._stream)
        return metrics

    def record(self, compute: Compute, *parts: Any) -> Callable[[], Metrics]:
        """Record an update as a CUDA graph; other threads, which encode images, may use the GPU meanwhile."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            metrics = compute(*parts)
            values = torch.stack(list(metrics.values()))

        def repeat() -> Metrics:
            graph.replay()
            return dict(zip(metrics, values.clone().unbind(), strict=True))  # the next replay writes over `values`

        return repeat


class Graphs:
    """Runs updates: the first of each kind as they are, the others from a recording."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._warm: Counter[Hashable] = Counter()
        self._recorded: dict[Hashable, tuple[tuple[Any, ...], Callable[[], Metrics]]] = {}

    def run(self, kind: Hashable, compute: Compute, *parts: Any) -> Metrics:
        """Run one update: warm up, record, or repeat the recording of its kind.

        Args:
            kind: What Python decided; updates of a kind differ in their tensors alone, not in shapes.
            compute: The same for all updates.
            parts: Dataclasses whose fields are tensors or tuples of them; of other fields the first ones stay.

        Raises:
            ConfigError: If the device cannot record it.
        """
        if kind not in self._recorded:
            if self._warm[kind] < WARM_UP:
                self._warm[kind] += 1
                return self._recorder.warm_up(compute, *parts)
            places = tuple(_copied(part) for part in parts)
            self._recorded[kind] = places, self._record(compute, places)
        places, repeat = self._recorded[kind]
        for place, part in zip(places, parts, strict=True):
            if tensors := _tensors(place):
                torch._foreach_copy_(tensors, _tensors(part))
        return repeat()

    def _record(self, compute: Compute, places: tuple[Any, ...]) -> Callable[[], Metrics]:
        try:
            return self._recorder.record(compute, *places)
        except RuntimeError as error:  # CUDA is in no state to go on from
            first: BaseException = error
            while first.__context__ is not None:  # what ended the recording, behind what that led to
                first = first.__context__
            raise ConfigError(
                f"updates cannot be recorded as a CUDA graph ({' '.join(str(first).split()[:40])}), must be with "
                "run.device 'cuda'; set device: cpu in the run"
            ) from error

    def forget(self) -> None:
        """Drop all recordings: after other state was loaded, optimisers have other tensors than those recorded."""
        self._warm.clear()
        self._recorded.clear()


def _copied(part: Any) -> Any:
    found = {f.name: getattr(part, f.name) for f in fields(part)}
    tensors = {name: value.clone() for name, value in found.items() if isinstance(value, Tensor)}
    tuples = {name: tuple(each.clone() for each in value) for name, value in found.items() if isinstance(value, tuple)}
    return replace(part, **tensors, **tuples)


def _tensors(part: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(value)
    return found
