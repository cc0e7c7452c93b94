"""The rung `receptive_field`: only what the labelled nodes' loss depends on, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fasthop.graph.note import Note, note
from fasthop.rewrites.base import Words
from fasthop.rewrites.exact.rung import ExactRung, first_left

if TYPE_CHECKING:
    from fasthop.rewrites.exact.build import Built


@dataclass(frozen=True, kw_only=True)
class ReceptiveField(ExactRung):
    """The last layer computes the training nodes, the one before it what those read, and so on. Only through operations
    that are listed as leaving rows apart."""

    name = "receptive_field"
    words = {  # noqa: RUF012
        "en": Words(
            title="Receptive field only",
            does="In training the last layer computes the training nodes alone, the layer before it what those read, and so on.",
            why="The loss and every gradient depend on nothing else.",
            costs="Train mode returns the training nodes' rows, not all; evaluation computes all nodes as before. It must not "
            "stand where an operation reaches over rows, such as BatchNorm.",
        ),
        "zh": Words(
            title="只算感受野",
            does="训练时最后一层只计算训练节点，前一层只计算它们所读取的节点，依此类推。",
            why="损失和所有梯度不依赖其他任何节点。",
            costs="训练模式只返回训练节点的行；评估时仍计算全部节点。若有跨行运算（如 BatchNorm）则不成立。",
        ),
    }

    def refusal(self, built: Built) -> Note:
        whole = note(
            "The training nodes' receptive field is the whole graph, in every layer.",
            "训练节点的感受野在每一层都是整个图。",
        )
        return first_left(built) or built.untraceable or built.mixes or whole
