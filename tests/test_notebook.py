"""fasthop works in a notebook: a model made in a cell reaches the workers, and the report shows itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

CELLS = (
    """
import torch, fasthop
from torch_geometric.nn import GCNConv
from fasthop.rewrites import ladder
from fasthop.rewrites.ladder import Recipe

# The two quick rows of the tutorial's ladder.
ladder.LADDERS["tutorial"] = lambda sample: (Recipe(name="baseline"), Recipe(name="sample", rungs=(sample,)))
""",
    """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(1433, 7)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)
""",
    'report = fasthop.bench("cora", model=Net, rounds=6, epochs=3, seeds=1, threads=1)\nreport',
    "assert [run.skipped for run in report.result.runs] == [None, None]",
)


EXAMPLE = Path(__file__).parents[1] / "examples" / "in_a_notebook.ipynb"


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a notebook's cells in a fresh kernel, in an empty folder; the notebook then has their outputs."""
    nbclient = pytest.importorskip(
        "nbclient", reason="nbclient is not installed: pip install 'fasthop[notebook]'"
    )
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    kernels = tmp_path / "share" / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"], '
        '"display_name": "Python 3", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))

    def run(notebook):
        client = nbclient.NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()

    return run


@pytest.mark.slow
# Jupyter's own packages warn of their own event loops and paths.
@pytest.mark.filterwarnings("default")
def test_a_model_made_in_a_cell(tmp_path, execute):
    nbformat = pytest.importorskip("nbformat", reason="nbformat comes with nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    execute(notebook)
    (shown,) = [out for out in notebook.cells[2].outputs if out.output_type == "execute_result"]
    assert "<table" in shown.data["text/html"]
    assert "baseline" in shown.data["text/html"]
    assert list((tmp_path / "runs").glob("*/result.json"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_example_runs(execute):
    nbformat = pytest.importorskip("nbformat", reason="nbformat comes with nbclient")
    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # committed without outputs of one machine
    execute(notebook)
    printed = "".join(
        out.text for cell in notebook.cells for out in cell.get("outputs", ()) if out.get("name") == "stdout"
    )
    for words in ("fused_step", "as written", "Trained"):
        assert words in printed
