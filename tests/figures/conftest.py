import pytest


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Fewer pixels, to save time."""
    monkeypatch.setattr("usfa.figures.style.DPI", 100)
