"""Figures as functions of tables: a table goes in, a matplotlib Figure comes out. No torch, no disk but `save`."""

from usfa.figures.style import save

__all__ = ["save"]
