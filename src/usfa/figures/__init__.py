"""Figures as functions of tables, without torch; :func:`save` writes them to disk."""

from usfa.figures.style import save

__all__ = ["save"]
