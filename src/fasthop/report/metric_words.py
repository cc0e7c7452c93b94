"""What a report calls the metric: every phrase that says accuracy says another metric's name where the run had one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fasthop.report.page.markup import plain

NAMES = {"macro_f1": "macro-F1", "roc_auc": "ROC-AUC", "average_precision": "average precision"}
ACCURACY = {"en": "accuracy", "zh": "准确率"}
# In Latin letters in every language: a callable has no other name, and the charts' font not every character.
_METRIC: ContextVar[str | None] = ContextVar("metric", default=None)


@contextmanager
def judged_by(task: Mapping[str, Any]) -> Iterator[None]:
    """While it is open, phrases speak of the metric of a Result's task; results without one had accuracy."""
    metric = task.get("metric")
    name = None if metric in (None, "accuracy") else " ".join(plain(NAMES.get(metric, metric)).split())
    token = _METRIC.set(name)
    try:
        yield
    finally:
        _METRIC.reset(token)


def with_metric(template: str, lang: str) -> str:
    """A phrase, its fields not yet filled in, with the metric's name in the place of accuracy."""
    name = _METRIC.get()
    if name is None:
        return template
    named = name.replace("{", "{{").replace("}", "}}")
    word = ACCURACY.get(lang, "accuracy")
    parts = template.split("{")
    # A field may have the name that the word has.
    replaced = [parts[0].replace(word, named)]
    for part in parts[1:]:
        field, closed, rest = part.partition("}")
        replaced.append(f"{field}{closed}{rest.replace(word, named)}")
    return "{".join(replaced)
