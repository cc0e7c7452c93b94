"""The script that a PyG user would have, and the same with the two lines that fasthop asks for; exact.py runs both.

The script is kept as text so that what is changed can be seen and counted.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

PLAIN = """
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(data.num_features, 16)
        self.conv2 = GCNConv(16, int(data.y.max()) + 1)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=DROPOUT, training=self.training)
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, p=DROPOUT, training=self.training)
        return self.conv2(x, edge_index)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train_on(model, data):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def train():
    return train_on(model, data)


@torch.no_grad()
def test():
    model.eval()
    pred = model(data.x, data.edge_index).argmax(dim=-1)
    return float((pred[data.test_mask] == data.y[data.test_mask]).float().mean())
"""

CHANGES = (
    ("model = Net()\n", "model = Net()\nfast = fasthop.accelerate(model, data)\n"),
    ("return train_on(model, data)", "return train_on(fast.model, fast.data)"),
)


def plain_script(data: Any, *, dropout: float) -> SimpleNamespace:
    """Runs the script as it is; its names are what comes back."""
    return _run(PLAIN, data, dropout)


def changed_script(data: Any, *, dropout: float) -> SimpleNamespace:
    """Runs it with a line more after the model, and one line changed in the loop."""
    text = PLAIN
    for before, after in CHANGES:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return _run("import fasthop\n" + text, data, dropout)


def _run(text: str, data: Any, dropout: float) -> SimpleNamespace:
    names: dict[str, Any] = {"data": data, "DROPOUT": dropout, "__name__": "script"}
    exec(compile(text, "script.py", "exec"), names)
    return SimpleNamespace(**{name: names.get(name) for name in ("train", "test", "model", "fast")})
