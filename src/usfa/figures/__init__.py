"""Figures as functions of tables, without torch; :func:`save` writes them to disk."""

from usfa.figures.style import FORMATS, save, save_all

__all__ = ["FORMATS", "save", "save_all"]
