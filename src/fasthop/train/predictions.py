"""Predictions: what a trained model says of every node, as a Parquet file in the user's own ids."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fasthop.errors import InvalidConfig
from fasthop.files import write_file
from fasthop.graph.graph import Graph

SCHEMA_VERSION = 1
SPLITS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}


def prediction_table(out: Tensor, graph: Graph, *, class_names: Sequence[str] | None = None) -> Any:
    """A pyarrow Table with a row a node, in the graph's order.

    out: logits or log-probabilities [N, C]. Columns: node_id (the user's own where the graph has them, else 0 .. N - 1), then
    predicted (the class, by name where names are known) and probability (the softmax's at it), or for a multi-label graph
    one column a class with its probability (the sigmoid's); last split: "train", "val", "test", several with "+" between, or "".
    Raises InvalidConfig where class_names are not one for each class.
    """
    import pyarrow as pa

    num_classes = graph.num_classes
    if class_names is not None and len(class_names) != num_classes:
        raise InvalidConfig(
            f"class_names has {len(class_names)} names, and the graph has {num_classes} classes."
        )
    names = list(class_names) if class_names is not None else None
    out = out.detach().cpu().float()
    columns: dict[str, Any] = {"node_id": _node_ids(graph)}
    if graph.is_multilabel:
        probability = torch.sigmoid(out).numpy()
        for place in range(num_classes):
            columns[f"class_{place}" if names is None else names[place]] = pa.array(probability[:, place])
    else:
        # More outputs than classes are embeddings' habit; only classes are predicted.
        best = torch.softmax(out, dim=-1)[:, :num_classes].max(dim=-1)
        predicted = best.indices.numpy()
        columns["predicted"] = pa.array(predicted if names is None else [names[i] for i in predicted])
        columns["probability"] = pa.array(best.values.numpy())
    columns["split"] = pa.array(_splits(graph))
    table = pa.table(columns)
    return table.replace_schema_metadata({"fasthop.predictions": str(SCHEMA_VERSION)})


def write_predictions(
    path: Path, out: Tensor, graph: Graph, *, class_names: Sequence[str] | None = None
) -> None:
    """Writes `prediction_table` beside `path` and renames it. Raises CannotWrite, with what stood there as it was."""
    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(prediction_table(out, graph, class_names=class_names), content)
    write_file(path, content.getvalue())


def _node_ids(graph: Graph) -> Any:
    import pyarrow as pa

    ids = graph.node_ids
    if ids is None:
        return pa.array(np.arange(graph.num_nodes))
    return pa.array(ids.tolist() if ids.dtype.kind in "UO" else ids)


def _splits(graph: Graph) -> list[str]:
    masks = {name: getattr(graph, mask).cpu().numpy() for mask, name in SPLITS.items()}
    code = sum(mask.astype(np.int64) << place for place, mask in enumerate(masks.values()))
    words = ["+".join(name for place, name in enumerate(masks) if bits >> place & 1) for bits in range(8)]
    return [words[bits] for bits in code]  # pyright: ignore[reportGeneralTypeIssues]
