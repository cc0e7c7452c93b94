"""The training script of a plan: plain PyTorch with the recipe written out, for people to read, run and change."""

from __future__ import annotations

import dataclasses
from typing import Any

from fasthop.rewrites.base import Rung
from fasthop.search.plan import Plan
from fasthop.train.task_config import TaskConfig

# Rungs whose step is one call: forward, backward and optimiser together.
WHOLE_STEP = ("fused_step", "cuda_graph")


def script_of(plan: Plan) -> str:
    """The text of `train.py`: it loads the graph and the model as tune did, applies the recipe, trains and evaluates."""
    recipe = plan.recipe()
    training, model, data = plan.training, plan.model, plan.data
    whole = any(rung.name in WHOLE_STEP for rung in recipe.rungs)
    scaled = any(rung.name == "amp" and getattr(rung, "dtype", "") == "float16" for rung in recipe.rungs)
    lines = [
        f'"""Trains {model.get("name") or "your model"} on {data.get("data") or "your graph"} by a plan of fasthop tune.',
        "",
        f"Recipe: {plan.recipe_name}. Made {plan.created} with fasthop {plan.fasthop_version}; change what you like.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import torch",
        "",
        *_imports(recipe.rungs),
        "",
        f"EPOCHS = {training.get('epochs') or 200}",
        f"SEED = {training.get('seed') or 0}",
        f"DEVICE = torch.device({training.get('device') or 'cpu'!r})",
        "",
        *_recipe(plan),
        "",
        "",
        "def main() -> None:",
        "    silence()",
    ]
    if training.get("threads") and (training.get("device") or "cpu") == "cpu":
        lines.append(f"    torch.set_num_threads({training['threads']})")
    lines += [
        "    # The graph and the task, as they were when the plan was made.",
        *_graph(data),
        *_task(plan),
        "    # The model, its inputs and batches, rewritten by the recipe; `setup.original` is your model, with the parameters",
        "    # that are trained.",
        "    setup = RECIPE.on(Setup.baseline(task, seed=SEED, device=DEVICE))",
        "    setup.restart(SEED)",
        "    model = setup.original",
    ]
    if whole or scaled:
        lines += [
            "    # Forward, backward and optimiser in one call.",
            "    step = setup.step()",
            "    for epoch in range(1, EPOCHS + 1):",
            "        for batch in setup.batches:",
            "            loss = step(batch)",
        ]
    else:
        lines += [
            "    optimizer = task.optimizer.build(model.parameters())",
            "    for epoch in range(1, EPOCHS + 1):",
            "        for batch in setup.batches:",
            "            optimizer.zero_grad()",
            "            with setup.precision.autocast(DEVICE):",
            "                out = batch.select(setup.forward(batch))",
            "                loss = task.loss(out, batch.labels())",
            "            loss.backward()",
            "            optimizer.step()",
        ]
    lines += [
        "        if epoch % max(1, EPOCHS // 10) == 0 or epoch == EPOCHS:",
        "            found = evaluate(setup)  # full-neighbour inference with your own model",
        '            print(f"epoch {epoch}: loss {float(loss):.4f}, {task.metric.name} train {found.train:.2f} %, "',
        '                  f"val {found.val:.2f} %, test {found.test:.2f} %")',
        '    torch.save(model.state_dict(), "model.pt")',
        "",
        "",
        'if __name__ == "__main__":',
        "    main()",
    ]
    return "\n".join(lines) + "\n"


def _imports(rungs: tuple[Rung, ...]) -> list[str]:
    kinds = sorted({(type(rung).__module__, type(rung).__name__) for rung in rungs})
    lines = ["import fasthop", "from fasthop.noise import silence"]
    lines += [f"from {module} import {name}" for module, name in kinds]
    lines += [
        "from fasthop.rewrites.ladder import Recipe",
        "from fasthop.train.evaluate import evaluate",
        "from fasthop.train.setup import Setup",
        "from fasthop.train.task_config import TaskConfig, make_task",
    ]
    return lines[:2] + sorted(lines[2:])


def _recipe(plan: Plan) -> list[str]:
    rungs = plan.recipe().rungs
    lines = ["RECIPE = Recipe(", f"    name={plan.recipe_name!r},"]
    if not rungs:
        return [*lines, ")"]
    lines.append("    rungs=(")
    for rung in rungs:
        knobs = ", ".join(f"{name}={getattr(rung, name)!r}" for name in rung.knobs)
        lines.append(f"        {type(rung).__name__}({knobs}),")
    return [*lines, "    ),", ")"]


def _graph(data: dict[str, Any]) -> list[str]:
    if data.get("data") is None:
        return [
            "    # tune was handed the graph as an object, which a script cannot name: load it here.",
            '    graph = fasthop.load_graph("graph.pt")',
        ]
    options = "".join(
        f", {name}={data[name]!r}"
        for name in ("root", "split", "transform", "seed")
        if data.get(name) not in (None, 0)
    )
    return [f"    graph = fasthop.load_graph({data['data']!r}{options})"]


def _task(plan: Plan) -> list[str]:
    model, training = plan.model, plan.training
    given: dict[str, Any] = {
        "model_args": model.get("args"),
        "hidden": model.get("hidden"),
        "layers": model.get("layers"),
        "dropout": model.get("dropout"),
        "output": model.get("output"),
        "head": model.get("head"),
        "forward_args": model.get("forward_args"),
        "lr": training.get("lr"),
        "weight_decay": training.get("weight_decay"),
        "optimizer": training.get("optimizer"),
        "loss": training.get("loss"),
        "metric": training.get("metric"),
        "class_weight": training.get("class_weight"),
        "label_smoothing": training.get("label_smoothing"),
    }
    usual = {f.name: f.default for f in dataclasses.fields(TaskConfig)} | {"lr": None, "weight_decay": None}
    lines = ["    task = make_task(", "        TaskConfig("]
    if model.get("name") is None:
        lines.append("            # tune was handed the model as an object: name what makes it here.")
        lines.append('            model="path/to/file.py:make_model",')
    else:
        lines.append(f"            model={model['name']!r},")
    lines += [
        f"            {name}={value!r},"
        for name, value in given.items()
        if value is not None and value != {} and value != usual[name]
    ]
    return [*lines, "        ),", "        graph,", "    )"]
