"""The Cora that comes with the package, made by scripts/make_cora.py from the LINQS files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from fasthop.graph.graph import Graph
from fasthop.graph.note import note

CORA = Path(__file__).with_name("cora.npz")
CORA_SEED = 0


def bundled_cora(path: Path = CORA) -> Graph:
    """Cora: 2,708 papers, 5,278 citation links (both directions in edge_index), 1,433 words, 7 classes."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    num_nodes = arrays["y"].size
    x = torch.zeros(num_nodes, int(arrays["num_words"]))
    paper = np.repeat(np.arange(num_nodes), arrays["words_per_paper"])
    x[torch.from_numpy(paper), torch.from_numpy(arrays["word"].astype(np.int64))] = 1.0
    low, high = arrays["link"].astype(np.int64)
    both = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
    edge_index = torch.from_numpy(both[:, np.lexsort((both[1], both[0]))])
    train, val, test = (torch.from_numpy(arrays["part"] == part) for part in (1, 2, 3))
    return Graph(
        x=x,
        edge_index=edge_index,
        y=torch.from_numpy(arrays["y"].astype(np.int64)),
        train_mask=train,
        val_mask=val,
        test_mask=test,
        num_nodes=num_nodes,
        num_classes=7,
        name="cora",
        notes=(
            note(
                "This is the bundled Cora. Its split follows Planetoid's protocol (20 training nodes a "
                "class, 500 "
                f"validation and 1,000 test nodes) with seed {CORA_SEED}, and is not Planetoid's public "
                f"split: "
                "accuracies may differ from published ones by a few points. planetoid:Cora has the public "
                "split.",
                "这是随软件包附带的 Cora。其划分按 Planetoid 的方案（每类 20 个训练节点、500 个验证节点、"
                f"1000 个测试节点）由种子 {CORA_SEED} 生成，并非 Planetoid 的公开划分："
                f"准确率可能与文献相差几个百分点。"
                "公开划分请用 planetoid:Cora。",
            ),
        ),
    )
