"""The first-person room on ViZDoom (extra `doom`)."""

from usfa.environments.doom.env import DoomRoom
from usfa.environments.doom.scenario import write_scenario

__all__ = ["DoomRoom", "write_scenario"]
