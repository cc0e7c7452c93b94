"""The state of a training between two epochs: taken out of a setup and its step, and put back bit for bit."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.train.batching import SampledBatches
from fasthop.train.checkpoint import DamagedCheckpoint
from fasthop.train.presented import PREFIX
from fasthop.train.setup import Setup
from fasthop.train.step import Step

if TYPE_CHECKING:  # the baseline runs neither, and must not pay for the kernels' import
    from fasthop.train.fused import FusedStep


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer by name, those that a state_dict leaves out included. Raises InvalidConfig for what a
    checkpoint cannot hold."""
    found: dict[str, Any] = dict(model.state_dict(keep_vars=True))
    for name, buffer in model.named_buffers():
        # What `present` hung onto the model are the graph's own tensors.
        if name not in found and not name.rpartition(".")[2].startswith(PREFIX):
            found[name] = buffer
    for name, value in found.items():
        if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_quantized:
            kind = f"a tensor of {value.layout}" if isinstance(value, Tensor) else type(value).__name__
            raise InvalidConfig(
                f"The model's state has {name!r}, {kind}, which a checkpoint cannot hold; keep it in an ordinary attribute or "
                "a dense buffer."
            )
    return found


def copied(tensors: dict[str, Tensor], prefix: str = "") -> dict[str, Tensor]:
    """Copies on the CPU, each with memory of its own."""
    return {prefix + name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def taken(setup: Setup, step: Step | FusedStep, *, epoch: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that the epochs after `epoch` whole ones depend on: parameters, buffers, optimiser, scaler, generators, the place in
    the order of batches, threads and the kernels chosen."""
    tensors = copied(model_tensors(setup.original), "model.")
    step_state, step_tensors = step.state()
    tensors |= copied(step_tensors, "step.")
    generators, generator_tensors = _generators(setup.device)
    tensors |= generator_tensors
    state = {
        "step": step_state,
        "generators": generators,
        "batches": {"kind": type(setup.batches).__name__, "epoch": epoch},
        "threads": torch.get_num_threads(),
        "kernels": pins(),
    }
    return state, tensors


def put_back(setup: Setup, step: Step | FusedStep, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Puts back what `taken` gave, into a setup made of the same task, recipe and seed; the generators come last."""
    load_model(setup.original, under(tensors, "model."))
    step.load_state(state["step"], under(tensors, "step."))
    if isinstance(setup.batches, SampledBatches):
        setup.batches.loader.set_epoch(state["batches"]["epoch"])
    _set_generators(state["generators"], tensors, setup.device)


def load_model(model: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copies values into the model's own tensors, so that what was compiled or prepared on them stays valid."""
    with torch.no_grad():
        for name, tensor in model_tensors(model).items():
            if name in tensors:
                tensor.copy_(tensors[name])


def check_fits(
    setup: Setup, step: Step | FusedStep, state: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Raises DamagedCheckpoint where a state is not one of this model and kind of step."""
    mine, theirs = model_tensors(setup.original), under(tensors, "model.")
    for name, tensor in mine.items():
        other = theirs.get(name)
        if other is None:
            raise DamagedCheckpoint(
                f"it has no tensor {name!r}, which the model has; it is of another model."
            )
        if other.shape != tensor.shape or other.dtype != tensor.dtype:
            raise DamagedCheckpoint(
                f"its {name!r} is {_words(other)}, and the model's is {_words(tensor)}; it is of another model."
            )
    if extra := sorted(theirs.keys() - mine.keys()):
        raise DamagedCheckpoint(
            f"it has {extra[0]!r}, which the model does not have; it is of another model."
        )
    wanted = step.state()[0]["kind"]
    try:
        kind, batches = state["step"]["kind"], state["batches"]["kind"]
        if state["generators"]["device"] != setup.device.type:
            raise DamagedCheckpoint(
                f"it was made on {state['generators']['device']}, and this is {setup.device.type}."
            )
    except (KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"a part of its state is missing ({error}).") from None
    if (kind, batches) != (wanted, type(setup.batches).__name__):
        raise DamagedCheckpoint("it was made with another recipe.")


def pins() -> list[dict[str, Any]]:
    """The kernels that this process has gone by, as JSON knows them."""
    dispatch = sys.modules.get(
        "fasthop.kernels.spmm.dispatch"
    )  # where it never was imported, it chose nothing
    if dispatch is None:
        return []
    return [
        {"shape": c.shape, "implementation": c.implementation, "time_us": c.time_us} for c in dispatch.used()
    ]


def pin(kernels: list[dict[str, Any]]) -> None:
    """Goes by them from here on. Raises DamagedCheckpoint where they are none."""
    if not kernels:
        return
    from fasthop.kernels.spmm import dispatch

    try:
        dispatch.pin(dispatch.Choice(**entry) for entry in kernels)
    except (TypeError, ValueError) as error:
        raise DamagedCheckpoint(f"its choice of kernels cannot be read ({error}).") from None


def _words(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} in {str(tensor.dtype).removeprefix('torch.')}"


def _generators(device: torch.device) -> tuple[dict[str, Any], dict[str, Tensor]]:
    version, words, gauss = random.getstate()
    name, keys, place, has_gauss, cached = np.random.get_state()
    tensors = {
        "generators.torch": torch.random.get_rng_state(),
        "generators.python": torch.tensor(words, dtype=torch.int64),
        "generators.numpy": torch.from_numpy(np.asarray(keys).astype(np.int64)),
    }
    if device.type == "cuda":
        tensors["generators.cuda"] = torch.cuda.get_rng_state(device)
    state = {
        "device": device.type,
        "python": [version, gauss],
        "numpy": [str(name), int(place), int(has_gauss), float(cached)],  # pyright: ignore[reportArgumentType]
    }
    return state, tensors


def _set_generators(state: dict[str, Any], tensors: dict[str, Tensor], device: torch.device) -> None:
    version, gauss = state["python"]
    random.setstate((version, tuple(tensors["generators.python"].tolist()), gauss))
    name, place, has_gauss, cached = state["numpy"]
    keys = tensors["generators.numpy"].numpy().astype(np.uint32)
    np.random.set_state((name, keys, place, has_gauss, cached))
    torch.random.set_rng_state(tensors["generators.torch"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(tensors["generators.cuda"], device)
