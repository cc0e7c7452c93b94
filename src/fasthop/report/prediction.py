"""What was predicted of a recipe beside what was measured, and how far the predictions of a ladder are to be trusted."""

from __future__ import annotations

import math
import statistics

from fasthop.measure.run import Result, Run
from fasthop.report.figures import measured, number
from fasthop.report.words import phrase
from fasthop.search.direction import direction


def prediction_error(run: Run) -> float | None:
    """How far the predicted ratio is from the measured one, as a share of that; None where there are not both."""
    ratio, predicted = measured(run.ratio_to_baseline), run.predicted_ratio
    if ratio is None or predicted is None or not math.isfinite(predicted) or ratio.median <= 0:
        return None
    return abs(predicted - ratio.median) / ratio.median


def is_right(run: Run) -> bool:
    """Whether the predicted ratio goes in the direction of the measured one. Only for a run that has both."""
    ratio = measured(run.ratio_to_baseline)
    assert ratio is not None
    assert run.predicted_ratio is not None
    return direction(run.predicted_ratio) == direction(ratio.median)


def prediction_sentence(run: Run, baseline: Run, lang: str) -> list[str]:
    """One sentence: the predicted ratio and its error; none for the baseline and where nothing could be predicted."""
    error = prediction_error(run)
    if run is baseline or error is None or run.predicted_ratio is None:
        return []
    key = "predicted.right" if is_right(run) else "predicted.wrong"
    return [phrase(key, lang, predicted=number(run.predicted_ratio), error=number(100 * error))]


def prediction_remark(result: Result, lang: str) -> list[str]:
    """The median error over the recipes of a result, and how many predictions went in the right direction."""
    both = [run for run in result.runs[1:] if prediction_error(run) is not None]
    if not both:
        return []
    errors = [error for run in both if (error := prediction_error(run)) is not None]
    fields = {"count": f"{len(both)}", "right": f"{sum(map(is_right, both))}"}
    return [phrase("predicted.median", lang, error=number(100 * statistics.median(errors)), **fields)]
