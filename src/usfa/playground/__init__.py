"""The playground: change the task with sliders in a browser and watch an agent change its mind (extra `web`)."""

from usfa.playground.app import make_app
from usfa.playground.limits import Limits
from usfa.playground.repertoire import Repertoire
from usfa.playground.server import Address, serve

__all__ = ["Address", "Limits", "Repertoire", "make_app", "serve"]
