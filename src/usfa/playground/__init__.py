"""The playground: set a task with sliders in a browser and watch an agent act on it (extra `web`)."""

from usfa.playground.app import make_app
from usfa.playground.catalogue import Catalogue
from usfa.playground.limits import Limits
from usfa.playground.server import Address, serve

__all__ = ["Address", "Catalogue", "Limits", "make_app", "serve"]
