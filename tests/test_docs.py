"""The documents are true: output, figures, commands, Python blocks and links are what they claim to be."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import sys
import types
import warnings
from pathlib import Path

import matplotlib
import pytest

import fasthop
from fasthop.cli import main as cli
from fasthop.graph.sources import NAMES
from fasthop.graph.synthetic import synthetic_config
from fasthop.measure.run import Run
from fasthop.noise import silence
from fasthop.report.chart import chart_bytes
from fasthop.report.report import Report

ROOT = Path(__file__).resolve().parents[1]


def load_script():
    path = ROOT / "scripts" / "refresh_docs.py"
    spec = importlib.util.spec_from_file_location("refresh_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


refresh = load_script()
DESIGN = tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/design").glob("*.md")))
MARKED = refresh.DOCUMENTS
DOCUMENTS = (*MARKED, *DESIGN, "CHANGELOG.md")
TWINS = (("README.md", "README.zh-CN.md"), ("docs/tutorial.md", "docs/tutorial.zh.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")
# What a reader is meant to put something of his own in the place of.
PLACEHOLDERS = {"RUN": "docs/cora"}
SUBCOMMANDS = [[command.__name__.rpartition(".")[2]] for command in cli.SUBCOMMANDS]


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def fences(text: str, *kinds: str) -> list[str]:
    return [match[2] for match in FENCE.finditer(text) if match[1] in kinds]


def prose(text: str) -> str:
    """The text without fenced blocks and without what the refreshing script writes."""
    for pattern in (FENCE, refresh.SAID, refresh.VALUE):
        text = pattern.sub("", text)
    return text


# --- what is marked ---


@pytest.mark.parametrize("document", MARKED)
def test_every_marked_place_is_as_the_script_writes_it(document):
    text = read(document)
    assert refresh.refreshed(text, refresh.language(document)) == text, "run scripts/refresh_docs.py"


@pytest.mark.parametrize("document", MARKED)
def test_no_mark_is_misspelt(document):
    text = read(document)
    known = sum(len(pattern.findall(text)) for pattern in (refresh.BLOCK, refresh.SAID, refresh.VALUE))
    closers = len(re.findall(r"<!-- end -->|<!--/v-->", text))
    assert len(re.findall(r"<!--", text)) == known + closers
    if document != "CONTRIBUTING.md":
        assert len(fences(text, "text")) == len(refresh.BLOCK.findall(text)) > 0, "output without its command"


def test_refreshing_mends_a_stale_figure_and_refuses_an_unknown_one():
    assert refresh.refreshed("<!--v:baseline.steps-->7<!--/v-->", "en") == "<!--v:baseline.steps-->1<!--/v-->"
    with pytest.raises(KeyError):
        refresh.refreshed("<!--v:baseline.luck-->7<!--/v-->", "en")


# Figures that are no measurement of the run: what they are, so that a reader of this test can judge.
ALLOWED = {
    "95 %": "the level of every interval",
    "95%": "the level of every interval",
    "99 %": "TARGET_SHARE in search/contest.py",
}
QUANTITY = re.compile(r"(?<![\w.])\d[\d,.]*\s?(?:ms|s|µs|kB|MB|GB|%|×)(?![\w])")


@pytest.mark.parametrize("document", [name for pair in TWINS for name in pair])
def test_prose_quotes_no_measurement_by_hand(document):
    found = {match[0] for match in QUANTITY.finditer(prose(read(document)))}
    # A shape of a matrix is written with the same sign as a factor.
    found = {text for text in found if not re.fullmatch(r"(2,708|1,433) ×", text)}
    assert found <= set(ALLOWED)


def test_the_run_is_a_whole_one_and_its_files_are_its_own():
    folder = ROOT / refresh.RUN
    report = refresh.load("en")
    assert report.result.finished
    assert report.result.task["data"] == "cora"
    assert [run.name for run in report.result.runs] == [
        "baseline", "sample", "sample+amp", "compile", "compile+sample+amp"
    ]  # fmt: skip
    assert all(run.skipped is None and run.accuracy is not None for run in report.result.runs)
    assert read(f"{refresh.RUN}/summary.md") == report.markdown("en")
    assert read(f"{refresh.RUN}/summary.zh.md") == report.markdown("zh", "ladder.zh.png")
    for name, lang in (("ladder.png", "en"), ("ladder.zh.png", "zh")):
        assert (folder / name).read_bytes().startswith(b"\x89PNG"), (name, lang)


def test_the_charts_are_drawn_from_the_run():
    pinned = re.search(r"^matplotlib==(.+)$", read("constraints.txt"), re.MULTILINE)
    assert pinned is not None
    if matplotlib.__version__ != pinned[1]:
        pytest.skip(f"the committed charts were drawn with matplotlib {pinned[1]}")
    report = refresh.load("en")
    assert chart_bytes(report.result, "en")["svg"] == (ROOT / refresh.RUN / "ladder.svg").read_bytes()


def test_a_run_is_taken_over_with_all_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    refresh.take_run(ROOT / refresh.RUN)
    taken = tmp_path / refresh.RUN
    assert {path.name for path in taken.iterdir()} == {
        "result.json", "summary.md", "summary.zh.md", "ladder.png", "ladder.svg", "ladder.zh.png"
    }  # fmt: skip
    assert Report.load(taken).result == refresh.load("en").result


# --- recorded output ---


@pytest.fixture
def one_thread(monkeypatch):
    """Threads that fight for the cores of a busy machine make a loop of seconds one of minutes."""
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shape(text: str) -> list[str]:
    """A profile's text without its figures, units, verdicts and the width of its columns."""
    text = re.sub(r"\d[\d.e+]*\s?(us|ms|s|B|kB|MB|GB|x)?(?![\w])", "#", text)
    text = re.sub(r"no significant change|faster|slower|无显著变化|更快|更慢", "?", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("document", [name for pair in TWINS for name in pair])
def test_recorded_output_has_the_shape_of_what_the_command_prints(document, one_thread):
    for match in refresh.BLOCK.finditer(read(document)):
        if match["kind"] == "recorded output of":
            printed = refresh.output(f"{match['command']} --epochs 6")
            assert shape(match["body"]) == shape(printed)


# --- commands ---


def commands(document: str) -> list[str]:
    """Every shell command of a document: the lines of its blocks, inline code, and the marks."""
    text = read(document)
    lines = [line for block in fences(text, "sh") for line in block.splitlines()]
    lines += re.findall(r"(?<!`)`((?:fasthop|make|python) [^`\n]+)`", prose(text))
    lines += [match["command"] for match in refresh.BLOCK.finditer(text)]
    return [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_is_one_that_runs(document):
    for line in commands(document):
        words = shlex.split(line)
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words.pop(0)
        program, arguments = words[0], [PLACEHOLDERS.get(word, word) for word in words[1:]]
        if program in ("fasthop", ".venv/bin/fasthop"):
            if arguments == ["--help"] or arguments in SUBCOMMANDS:  # named, not called
                continue
            args = cli.build_parser().parse_args(arguments)
            check_data(getattr(args, "data", "cora"))
        elif program == "make":
            targets = [word for word in arguments if "=" not in word]
            assert all(re.search(rf"^{target}:", read("Makefile"), re.MULTILINE) for target in targets), line
        elif program == "python":
            assert (ROOT / arguments[0]).is_file(), line
        else:
            assert (program, arguments[0]) == ("pip", "install"), line


def check_data(name: str) -> None:
    """Whether `--data` takes the name; nothing is loaded, for that may download or take minutes."""
    kind, _, rest = name.partition(":")
    if kind == "synthetic":
        synthetic_config(rest)
    else:
        assert name in NAMES or name in ("graph.pt", "edges.csv"), name


@pytest.mark.parametrize("document", MARKED)
def test_every_option_that_is_named_exists(document):
    known = set()
    for name in (*(name for [name] in SUBCOMMANDS), "model_options"):
        source = (ROOT / "src/fasthop/cli" / f"{name}.py").read_text(encoding="utf-8")
        known |= set(re.findall(r'"(--[a-z-]+)"', source))
    known |= set(re.findall(r'"(--[a-z-]+)"', read("scripts/refresh_docs.py")))
    assert set(re.findall(r"`(--[a-z-]+)[` ]", prose(read(document)))) <= known


def test_the_readme_names_every_graph_and_every_exit_code():
    for document in TWINS[0]:
        text = read(document)
        assert [name for name in NAMES if f"`{name}`" not in text] == []
        codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
        assert codes == [cli.OK, cli.FAILED, cli.WRONG_INPUT, cli.INTERRUPTED, cli.BROKEN_PIPE]


# --- Python ---


@pytest.fixture
def quick_bench(monkeypatch):
    """`fasthop.bench` in the documents measures for minutes: here its arguments are checked, and it
    returns the committed run."""
    import inspect

    from fasthop.search.config import BenchConfig

    signature = inspect.signature(fasthop.bench)

    def bench(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {k: v for k, v in bound.arguments.items() if k not in ("out", "lang", "progress")}
        given |= {k: given[k] or {} for k in ("model_args", "forward_args")}  # as bench itself has it
        BenchConfig(**given)
        return refresh.load(bound.arguments["lang"])

    monkeypatch.setattr(fasthop, "bench", bench)


@pytest.mark.parametrize("document", [name for pair in TWINS for name in pair])
def test_every_python_block_runs(document, quick_bench, one_thread, capsys):
    with warnings.catch_warnings():
        silence()
        names: dict[str, object] = {"__name__": "documented"}
        for block in fences(read(document), "python"):
            if not document.startswith("docs/tutorial"):  # the tutorial's blocks go on from one another
                names = {"__name__": "documented"}
            exec(compile(block, document, "exec"), names)
    printed = capsys.readouterr().out
    assert "ms" in printed


def test_the_worked_example_of_a_rung_passes_its_own_tests(monkeypatch):
    blocks = {
        block.splitlines()[0].removeprefix("# "): block for block in fences(read("CONTRIBUTING.md"), "python")
    }
    assert list(blocks) == ["src/fasthop/rewrites/norm_once.py", "tests/rewrites/test_norm_once.py"]
    assert not any((ROOT / path).exists() for path in blocks), (
        "it is a real rung by now: show another example"
    )
    rung, tests = blocks.values()
    module = types.ModuleType("fasthop.rewrites.norm_once")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(rung, "norm_once.py", "exec"), module.__dict__)
    names: dict[str, object] = {"__name__": "documented_tests"}
    exec(compile(tests, "test_norm_once.py", "exec"), names)
    ran = [names[name]() for name in list(names) if name.startswith("test_")]  # type: ignore[operator]
    assert len(ran) == 2


def test_the_examples_show_what_the_tutorial_says_of_them():
    printed = refresh.output("python examples/neighbor_loader.py")
    assert "below 1e-10: True" in printed
    naive = re.search(r"subgraph's degrees: ([\d.]+)", printed)
    assert naive is not None
    assert float(naive[1]) > 0.1


# --- links and structure ---


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    found = set()
    for heading in re.findall(
        r"^#+ (.+)$", FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE
    ):
        kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(kept.replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document):
    here = ROOT / document
    for _, target in LINK.findall(FENCE.sub("", read(document))):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        place = (here.parent / path).resolve() if path else here
        assert place.exists(), target
        assert place.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(place), target


@pytest.mark.parametrize("document", MARKED)
def test_every_path_in_code_exists(document):
    for path in re.findall(
        r"`((?:src|tests|docs|scripts|examples|benchmarks)/[\w./-]+)`", prose(read(document))
    ):
        assert (ROOT / path).exists(), path


def skeleton(text: str, document: str) -> list[object]:
    """Headings' levels, code as a reader runs it, links and marks, in order; no sentence."""
    parts: list[object] = []
    pattern = re.compile(
        rf"{FENCE.pattern}|{LINK.pattern}|{refresh.VALUE.pattern}|^(#+) |^(- |\d\. )|^\|",
        re.DOTALL | re.MULTILINE,
    )
    for match in pattern.finditer(text):
        whole = match[0]
        if whole.startswith("```"):
            parts.append(code(match[1], match[2]))
        elif whole.startswith(("[", "![")):
            target = match[4]
            parts.append("anchor" if target.startswith("#") else re.sub(r"\.zh(-CN)?(?=\.)", "", target))
        elif whole.startswith("<!--v:"):
            parts.append(match["key"])
        else:
            parts.append(whole)
    names = {"README.zh-CN.md", "docs/tutorial.zh.md"}
    assert (document in names) == (refresh.language(document) == "zh")
    return parts


def code(kind: str, body: str) -> object:
    if kind == "python":
        tree = ast.dump(ast.parse(body))
        return tree.replace(", keyword(arg='lang', value=Constant(value='zh'))", "")
    return None if kind == "text" else body.replace(" --lang zh", "")


@pytest.mark.parametrize("pair", TWINS, ids=lambda pair: pair[0])
def test_both_languages_have_the_same_structure(pair):
    english, chinese = (skeleton(read(document), document) for document in pair)
    # A figure may stand at another place of its sentence.
    assert sorted(map(str, english)) == sorted(map(str, chinese))
    order = [part for part in english if str(part).startswith(("#", "Module"))]
    assert order == [part for part in chinese if str(part).startswith(("#", "Module"))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_are_about_this_project_only(document):
    text = read(document)
    assert not re.search(r"/(home|tmp|work|root)/", text), "a path of one machine"
    assert not re.search(r"fasthop pack\b", text)
    assert text.endswith("\n")


def test_the_figures_of_a_run_are_formatted_without_any_measurement():
    """A recipe that was skipped has dashes, not an error: the documents can be refreshed from any run."""
    empty = Run(name="x", rungs=("x",), exactness="bitwise", skipped="no reason.")
    values = refresh._figures_of(empty, empty, "en")
    assert {value() for key, value in values.items() if key not in ("change", "accuracy")} == {"–"}
    assert os.path.isdir(ROOT / refresh.RUN)
