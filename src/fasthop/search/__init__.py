"""Decisions: which recipes to try, each in a process of its own, and what they measured."""
