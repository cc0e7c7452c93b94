"""A report speaks of the metric that was measured, and of accuracy where that was it."""

from __future__ import annotations

import dataclasses

import pytest

from fasthop.report.metric_words import judged_by, with_metric
from fasthop.report.page.reproduce import command
from fasthop.report.report import Report
from fasthop.report.words import phrase
from tests.report import results


def judged(metric, **task):
    result = results.normal()
    return dataclasses.replace(result, task={**result.task, "metric": metric, **task})


@pytest.mark.parametrize(
    ("metric", "name"), [("macro_f1", "macro-F1"), ("roc_auc", "ROC-AUC"), ("luck {0}\n<b>", "luck {0} <b>")]
)
def test_table_sentences_and_markdown_name_the_metric(metric, name):
    report = Report(judged(metric))
    for full in (False, True):
        text = report.text("en", 140, full=full)
        assert name in text
        assert "accuracy" not in text
        chinese = report.text("zh", 140, full=full)
        assert name in chinese
        assert "准确率" not in chinese
    assert "accuracy" not in report.markdown("en").replace("time_to_accuracy", "")
    assert "accuracy" not in report.table("en", 120)


def test_accuracy_stays_what_it_was():
    plain = Report(results.normal()).text("en", 140, full=True)
    assert "accuracy" in plain
    assert Report(judged("accuracy")).text("en", 140, full=True).replace(", metric accuracy", "") == plain


def test_the_word_comes_back_when_the_report_is_done():
    with judged_by({"metric": "roc_auc"}):
        assert "ROC-AUC" in phrase("col.accuracy", "en")
        assert with_metric("{accuracy} is the accuracy", "en") == "{accuracy} is the ROC-AUC"
    assert "accuracy" in phrase("col.accuracy", "en")


def test_the_command_asks_for_the_same_model_loss_and_metric():
    task = {
        "model": "net.py:make",
        "model_args": {"hidden_channels": 64},
        "forward_args": {"pos": "position"},
    }
    more = {
        "loss": "nll",
        "class_weight": [1.0, 2.5],
        "label_smoothing": 0.1,
        "head": True,
        "output": 1,
        "optimizer": "sgd",
    }
    made = command(judged("macro_f1", **task, **more))
    for part in (
        "--model net.py:make", "--model-arg hidden_channels=64", "--forward-arg pos=position", "--loss nll",
        "--class-weight 1.0,2.5", "--label-smoothing 0.1", "--head", "--output 1", "--optimizer sgd", "--metric macro_f1",
    ):  # fmt: skip
        assert part in made
    assert "--loss" not in command(judged("accuracy", loss="cross_entropy"))
    assert "--metric" not in command(judged("luck", loss="spread"))
