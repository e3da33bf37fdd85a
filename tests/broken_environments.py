"""An environment without a fault, and many with one each."""

import gymnasium as gym
import numpy as np


class Good(gym.Env):
    """A walk on 0..4 with noise: reaching 4 ends it, 12 steps cut it off; φ = (4 reached, noise)."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(0, 12, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.reward_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.position, self.clock = 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.clock = int(self.np_random.integers(2)), 0
        return self._observation(), {"action_mask": self._mask()}

    def step(self, action):
        self.position = int(np.clip(self.position + action - 1 + self.np_random.integers(-1, 2), 0, 4))
        self.clock += 1
        phi = np.array([self.position == 4, self.np_random.uniform(-1, 1)], np.float32)
        return self._observation(), phi, self.position == 4, self.clock == 12, {"action_mask": self._mask()}

    def get_state(self):
        return {"position": self.position, "clock": self.clock, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.position, self.clock = state["position"], state["clock"]
        self.np_random.bit_generator.state = state["rng"]

    def _observation(self):
        return np.array([self.position, self.clock], np.float32)

    def _mask(self):
        return np.array([self.position > 0, True, True], np.int8)


class _Changed(Good):
    """What `step` returns, changed by a function of its five parts."""

    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, terminated, truncated, info

    def step(self, action):
        return self.change(*super().step(action))


# --- spaces ---


class NoRewardSpace(Good):
    def __init__(self):
        super().__init__()
        del self.reward_space


class FlatRewardSpace(Good):
    def __init__(self):
        super().__init__()
        self.reward_space = gym.spaces.Box(-1, 1, ())


class NoSuchPart(Good):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Dict({"position": gym.spaces.Discrete(5)})


class NoObservationSpace(Good):
    def __init__(self):
        super().__init__()
        self.observation_space = None


class ContinuousActions(Good):
    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Box(-1, 1, (2,))


class NoActionSpace(Good):
    def __init__(self):
        super().__init__()
        self.action_space = 3


# --- reset and step ---


class ResetWithoutSeed(Good):
    def reset(self):
        return super().reset()


class ResetWithoutInfo(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class ResetFails(Good):
    def reset(self, *, seed=None, options=None):
        return self.nothing


class FourValues(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, terminated or truncated, info


class StepFails(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi / {}["key"], terminated, truncated, info


class InfoIsNone(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, terminated, truncated, None


# --- observations ---


class LongObservation(Good):
    def _observation(self):
        return np.zeros(3, np.float32)


class ObservationWithAnAxisMore(Good):
    def _observation(self):
        return super()._observation()[None]


class ObservationOutside(Good):
    def _observation(self):
        return super()._observation() * 2 - 1


class ObservationNotFinite(Good):
    def _observation(self):
        return np.array([np.nan, self.clock], np.float32)


class ObservationChangedLater(Good):
    def __init__(self):
        super().__init__()
        self.kept = np.zeros(2, np.float32)

    def _observation(self):
        self.kept[:] = super()._observation()
        return self.kept


class _Parts(Good):
    """Place and time as parts."""

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Dict({"place": gym.spaces.Discrete(5), "time": gym.spaces.Box(0, 12, (1,))})

    def _observation(self):
        return {"place": self.position, "time": np.array([self.clock], np.float32)}


class PartChangedLater(_Parts):
    def __init__(self):
        super().__init__()
        self.kept = np.zeros(1, np.float32)

    def _observation(self):
        self.kept[:] = self.clock
        return {"place": self.position, "time": self.kept}


class PartOutside(_Parts):
    def _observation(self):
        return {"place": self.position, "time": np.array([self.clock + 7], np.float32)}


class PartInAnArray(_Parts):
    def _observation(self):
        return {**super()._observation(), "place": np.array([self.position])}


class DoubleObservation(Good):
    def _observation(self):
        return super()._observation().astype(np.float64)


class LargeObservation(Good):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(0, np.inf, (2,), np.float32)

    def _observation(self):
        return super()._observation() * 1000


# --- φ ---


class ShortPhi(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi[:1], terminated, truncated, info


class ScalarReward(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, float(phi.sum()), terminated, truncated, info


class PhiNotFinite(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi / phi[0], terminated, truncated, info

    def step(self, action):
        with np.errstate(all="ignore"):
            return super().step(action)


class PhiOutside(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi * 3, terminated, truncated, info


class PhiChangedLater(_Changed):
    def __init__(self):
        super().__init__()
        self.kept = np.zeros(2, np.float32)

    def change(self, observation, phi, terminated, truncated, info):
        self.kept += phi
        self.kept[:] = phi
        return observation, self.kept, terminated, truncated, info


class PhiIsAList(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi.tolist(), terminated, truncated, info


class LargePhi(_Changed):
    def __init__(self):
        super().__init__()
        self.reward_space = gym.spaces.Box(-1e4, 1e4, (2,), np.float32)

    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi * 1e4, terminated, truncated, info


class UnpaidPhi(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi * [0, 1], terminated, truncated, info


# --- ends of episodes ---


class EndingIsNone(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, terminated, None, info


class EndingIsANumber(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, int(terminated), truncated, info


class EndingsAreANumberAndNone(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, int(terminated), None, info


class Endless(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        self.clock = min(self.clock, 11)
        return observation, phi, False, False, info


class LimitAsTermination(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, truncated, False, info


class ResetsItself(Good):
    """Always cut off after 12 steps, and then shows the first observation of the next episode instead of its last."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0
        return self._observation(), {"action_mask": self._mask()}

    def step(self, action):
        observation, phi, _, truncated, info = super().step(action)
        if truncated:
            observation, info = self.reset()
        return observation, phi, False, truncated, info


# --- masks ---


class LongMask(Good):
    def _mask(self):
        return np.ones(4, np.int8)


class NothingLegal(Good):
    def _mask(self):
        return np.array([self.position < 3] * 3)


class MaskOnlyAtReset(_Changed):
    def change(self, observation, phi, terminated, truncated, info):
        return observation, phi, terminated, truncated, {}


# --- again ---


class Unseeded(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


class Deterministic(_Changed):
    """Chance is the same whatever the seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7)


class SharedState(_Changed):
    counted = 0

    def reset(self, *, seed=None, options=None):
        SharedState.counted = 0
        return super().reset(seed=seed)

    def change(self, observation, phi, terminated, truncated, info):
        SharedState.counted += 1
        return observation, phi, terminated, SharedState.counted >= 12, info


class ForgetsItsChance(Good):
    def get_state(self):
        return {"position": self.position, "clock": self.clock}

    def set_state(self, state):
        self.position, self.clock = state["position"], state["clock"]


class StateOfArrays(Good):
    def get_state(self):
        return {**super().get_state(), "observation": self._observation()}


class CannotBeSaved(Good):
    get_state = property()
