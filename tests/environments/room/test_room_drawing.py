import numpy as np
import pytest
from room_reference import reference_image

from usfa.environments.room import OBJECTS, RoomBatch, RoomRules

PILLARS = "......\n.#..#.\n......\n......\n.#..#.\n......"


@pytest.mark.parametrize(
    ("rules", "size", "field_of_view"),
    [
        (RoomRules(), 84, 80),
        (RoomRules(types=8, objects_per_type=2), 42, 80),
        (RoomRules(layout=PILLARS, side=12), 42, 80),
        (RoomRules(side=5, objects_per_type=3), 31, 80),
        (RoomRules(), 42, 110),
        (RoomRules(side=5, objects_per_type=3), 42, 35.5),
    ],
)
def test_the_fast_view_agrees_with_the_literal_one(rules, size, field_of_view):
    """At most 2 % of the pixels differ by more than 6 of 255: texels whose border a ray meets within rounding."""
    rooms = 2 if size > 50 else 4
    seeds = range(50, 50 + rooms)
    batch = RoomBatch(rooms, rules, seeds=seeds, image_size=size, field_of_view=field_of_view)
    for action in np.random.default_rng(1).integers(8, size=(20, rooms)):
        batch.step(action)
    for room in range(rooms):
        world = batch.world
        expected = reference_image(rules, world.pose[room], world.objects[room], world.alive[room], size, field_of_view)
        wrong = abs(expected - batch.observation[room]).max(axis=-1) > 6
        assert wrong.mean() < 0.02


def view_of(kind, distance, size=84, **rules):
    """Only one object, straight ahead."""
    batch = RoomBatch(1, RoomRules(types=8, objects_per_type=1, side=14, **rules), image_size=size)
    batch.world.pose[:] = (1.0, 7.0, 0.0)
    batch.world.alive[:] = False
    empty = batch.render(size)[0].astype(int)
    if kind is not None:
        batch.world.alive[0, kind] = True
        batch.world.objects[0, kind] = (1.0 + distance, 7.0)
    return batch.render(size)[0].astype(int), empty


@pytest.mark.parametrize("size", [84, 42])
@pytest.mark.parametrize("kind", range(8))
def test_objects_show_their_colour_near_and_far(kind, size):
    for distance in (1.0, 2.0, 4.0, 8.0):
        view, empty = view_of(kind, distance, size)
        shown = view[abs(view - empty).max(axis=-1) > 25]
        assert len(shown) >= 2
        colours = np.array([other.colour for other in OBJECTS])
        # The pixels most like an object's own colour are closer to it than to any other type's.
        own = np.sort(abs(shown - colours[kind]).sum(axis=1))[: max(1, len(shown) // 4)].mean()
        for other in set(range(8)) - {kind}:
            assert own < np.sort(abs(shown - colours[other]).sum(axis=1))[: max(1, len(shown) // 4)].mean()


def test_nearer_objects_are_larger():
    areas = []
    for distance in (1.5, 3.0, 6.0, 12.0):
        view, empty = view_of(1, distance)
        areas.append((abs(view - empty).max(axis=-1) > 25).sum())
    assert areas == sorted(areas, reverse=True)
    assert areas[0] > 10 * areas[2]


def test_walls_hide_objects():
    wall = "......\n......\n......\n..#...\n......\n......"
    batch = RoomBatch(1, RoomRules(types=2, objects_per_type=1, side=12, layout=wall))
    batch.world.pose[:] = (1.0, 5.0, 0.0)
    batch.world.alive[:] = [[True, False]]
    batch.world.objects[0, 0] = (9.0, 5.0)
    hidden = batch.render(84)
    batch.world.alive[:] = False
    np.testing.assert_array_equal(hidden, batch.render(84))


def test_one_sees_ones_own_motion():
    batch = RoomBatch(8)
    before = batch.observation.copy()
    for action in range(8):
        batch.reset(range(8))
        batch.step(np.full(8, action))
        moved = (batch.observation != before).any(axis=-1).mean(axis=(1, 2))
        assert np.median(moved) > 0.1


@pytest.mark.parametrize("heading", [0.0, np.pi / 2, np.pi])
def test_rays_along_an_axis_are_like_their_neighbours(heading):
    batch = RoomBatch(2, image_size=8)
    batch.world.pose[:] = [(3.3, 4.7, heading), (3.3, 4.7, heading + 1e-4)]
    batch.world.alive[:] = False
    exact, near = batch.render(85).astype(float)
    assert abs(exact - near).mean(axis=(0, 2)).max() < 12
