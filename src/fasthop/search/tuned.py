"""Tuned: what a tune found: the plan, everything that was tried, and why it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fasthop.graph.note import Note
from fasthop.search.attempt import Attempt
from fasthop.search.finals import Final
from fasthop.search.plan import Plan
from fasthop.search.tuned_text import tuned_text

PLAN_FILE, SCRIPT_FILE, TRIALS_FILE = "plan.json", "train.py", "trials.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tuned:
    """What a tune found.

    plan: the plan, or None where nothing fits the limits. attempts: every candidate that was tried, with what came of it.
    finals: what was held against the baseline by turns, the refused ones first. stopped: why it stopped. notes: what else is
    to be said. finished: False after Ctrl-C. spent_s: of the budget, earlier runs in the same folder included. folder: where
    plan.json, train.py, trials.json and the study lie. lang: in which it prints itself.
    """

    plan: Plan | None
    attempts: tuple[Attempt, ...]
    finals: tuple[Final, ...]
    stopped: Note | None
    notes: tuple[Note, ...]
    finished: bool
    spent_s: float
    budget_s: float
    objective: str
    folder: Path
    lang: str = "en"

    def __str__(self) -> str:
        return tuned_text(self, self.lang)

    def _repr_markdown_(self) -> str:
        """For notebooks."""
        return f"```\n{self}\n```"

    @property
    def plan_path(self) -> Path | None:
        """Where the plan lies."""
        return None if self.plan is None else self.folder / PLAN_FILE

    @property
    def script_path(self) -> Path | None:
        """Where the training script lies."""
        return None if self.plan is None else self.folder / SCRIPT_FILE

    def trials_json(self) -> str:
        """The text of `trials.json`: all trials, the notes and why it stopped."""
        tree: dict[str, Any] = {
            "schema_version": 1,
            "finished": self.finished,
            "objective": self.objective,
            "spent_s": self.spent_s,
            "budget_s": self.budget_s,
            "stopped": self.stopped,
            "notes": list(self.notes),
            "trials": [attempt.to_json() for attempt in self.attempts],
        }
        return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"

    def to_json(self) -> str:
        """For programs: the plan, and what `trials.json` holds."""
        tree = json.loads(self.trials_json())
        plan = None if self.plan is None else json.loads(self.plan.to_json())
        return (
            json.dumps({"plan": plan, "folder": str(self.folder), **tree}, indent=2, ensure_ascii=False)
            + "\n"
        )
