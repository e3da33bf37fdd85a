"""The reproduction of the paper: its experiments, reports, claims and figures."""

from usfa.paper.one_state import OneStateExperiment, reproduce_one_state
from usfa.paper.room import RoomExperiment, reproduce_room
from usfa.paper.trip import TripExperiment, reproduce_trip

__all__ = [
    "OneStateExperiment",
    "RoomExperiment",
    "TripExperiment",
    "reproduce_one_state",
    "reproduce_room",
    "reproduce_trip",
]
