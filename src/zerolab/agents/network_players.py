"""Players that search before every move, or choose moves from a network's policy without search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, NetworkOptions, Player, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import compiled_rules, rules
from zerolab.rules.rules import Game
from zerolab.search.budgets import BudgetSettings, FixedBudgetSettings
from zerolab.search.evaluator import Evaluation, Evaluator, cache_bytes
from zerolab.search.methods import has_fixed_schedule, playouts_per_leaf, statistics_width
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings
from zerolab.search.tree import INITIAL_NODE_CAPACITY, node_bytes

_FIXED = FixedBudgetSettings()

_MIN_SIMULATIONS = 1000  # per move; searches with fewer do not use virtual loss
_SIMULATIONS_PER_LEAF = 40  # enough for the same accuracy as with one leaf (docs/results)
_MAX_LEAVES = 256  # per step
_MAX_PLAYOUTS = 4096  # per step, so that steps stay short


class SearchPlayer:
    """Player that searches and chooses the move with the highest weight, breaking ties at random.

    The weights are visit counts unless the root rule defines its own. The quickest known proven win
    is chosen, and proven losses are avoided (see `Search.choose`). In the first `temperature_plies`
    plies, moves are sampled in proportion to the weights, which adds variety. Root noise is off
    unless `noise` is set; self-play sets it. Up to `threads` threads share the playouts of a batch
    of leaves; `budget` controls the number of simulations per move.
    """

    def __init__(
        self,
        game: Game,
        name: str,
        settings: SearchSettings,
        evaluator: Evaluator,
        temperature_plies: int = 0,
        *,
        noise: bool = False,
        threads: int = 1,
        budget: BudgetSettings = _FIXED,
    ) -> None:
        self.name = name
        self.evaluator = evaluator
        no_noise = settings.noise.model_copy(update={"fraction": 0.0})
        self._settings = settings if noise else settings.model_copy(update={"noise": no_noise})
        self._game = game
        self._temperature_plies = temperature_plies
        self._threads = threads
        self._budget_settings = budget
        self._noise = noise
        self.start(0)

    def enable_virtual_loss(self) -> None:
        """Use virtual loss to fill the batches of a single game, starting at the next `start`.

        This applies to searches with at least 1,000 simulations, one leaf per step in their
        settings, and a root rule without a fixed schedule. Results change but remain deterministic.
        """
        settings = self._settings
        applies = settings.simulations >= _MIN_SIMULATIONS and settings.leaves_per_step == 1
        if applies and not has_fixed_schedule(settings.root.build()):
            playouts = max(1, playouts_per_leaf(settings.leaf_evaluator.build()))
            limit = min(_MAX_LEAVES, max(1, _MAX_PLAYOUTS // playouts))
            leaves = min(limit, settings.simulations // _SIMULATIONS_PER_LEAF)
            self._settings = settings.model_copy(update={"leaves_per_step": leaves})

    def start(self, games: int) -> None:
        self.search = self.new_search(games)
        self.extra_outputs = self.search.extra_outputs
        actions = rules.action_count(self._game)
        self.budget = self._budget_settings.new_budget(self._settings, games, actions)
        self._plies = np.zeros(games, np.int64)
        self._keys = np.zeros(games, np.uint64)
        self._begin(np.arange(games))

    def new_search(self, games: int) -> Search:
        """Return a search for `games` games."""
        return Search(self._game, self._settings, self.evaluator, games, self._threads)

    def reset(self, slots: Slots) -> None:
        self._begin(slots)

    def _begin(self, slots: Slots) -> None:
        self.reset_to_states(
            slots, np.repeat(compiled_rules.start(self._game)[None], len(slots), axis=0)
        )

    def reset_to_states(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        self._plies[slots] = 0
        self.search.set_root(slots, states)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        self.submit(slots, states, keys)
        while self.search.is_active:
            self._extend_unfinished(self.search.step())
        return self.decide(slots)

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        self._keys[slots] = keys
        simulations, _ = self.budget.initial_allowance(slots, keys)
        noise = np.full(len(slots), self._noise)
        self.search.start_search(slots, keys, keys, simulations, noise)

    def step(self) -> tuple[Slots, Actions]:
        slots = self._extend_unfinished(self.search.step())
        return slots, self.decide(slots)

    def select_leaves(self) -> NDArray[np.uint64]:
        return self.search.select_leaves()

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        self.search.expand_and_backup(evaluation)
        slots = self._extend_unfinished(self.search.finish_step())
        return slots, self.decide(slots)

    def _extend_unfinished(self, slots: Slots) -> Slots:
        """Extend finished searches as the budget requires; return the slots not extended."""
        if not (slots.size and self.budget.may_extend):
            return slots
        more = self.grant_simulations(slots)
        extended = more > 0
        if extended.any():
            self.search.extend(slots[extended], more[extended])
        return slots[~extended]

    def grant_simulations(self, slots: Slots) -> NDArray[np.int32]:
        """Grant finished searches more simulations from their budgets; return how many, int32[n].

        The number is 0 where the budget grants no more.
        """
        return self.budget.grant_more(slots, self.search)

    def decide(self, slots: Slots) -> Actions:
        """Return the actions chosen by finished searches."""
        if not slots.size:
            return slots
        return self.search.choose(slots, self._keys[slots], self.is_sampled(slots))

    def is_sampled(self, slots: Slots) -> NDArray[np.bool_]:
        """Return, for each slot, whether to sample the next move from the move weights, bool[n]."""
        return self._plies[slots] < self._temperature_plies

    def advance(self, slots: Slots, actions: Actions) -> None:
        self.search.advance(slots, actions)
        self._plies[slots] += 1


def prepare_for_one_game(player: Player) -> Player:
    """Prepare a player for one game at a time, such as against a human, and return it."""
    if isinstance(player, SearchPlayer):
        player.enable_virtual_loss()
    return player


def tree_bytes(game: Game, settings: SearchSettings) -> int:
    """Estimate the size of a tree in bytes; each simulation adds the children of one node."""
    node = node_bytes(rules.word_count(game), statistics_width(settings.selection.build()))
    return node * max(INITIAL_NODE_CAPACITY, settings.simulations * rules.action_count(game))


def evaluation_cache_bytes(game: Game, settings: SearchSettings) -> int:
    """Return the size in bytes of the evaluation cache shared by all trees of a search."""
    words, actions = rules.word_count(game), rules.action_count(game)
    return cache_bytes(settings.cache, words, actions, settings.extra_outputs)


class PolicyPlayer:
    """Player that chooses the legal action with the highest prior, breaking ties at random.

    In the first `temperature_plies` plies, moves are sampled in proportion to the priors.
    """

    def __init__(
        self, game: Game, name: str, evaluator: Evaluator, temperature_plies: int = 0
    ) -> None:
        self.name = name
        self._game = game
        self.evaluator = evaluator
        self._temperature_plies = temperature_plies
        self.start(0)

    def start(self, games: int) -> None:
        self._plies = np.zeros(games, np.int64)

    def reset(self, slots: Slots) -> None:
        self._plies[slots] = 0

    def reset_to_states(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        self.reset(slots)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        priors, _ = self.evaluator.evaluate(states)
        return self.choose_by_priors(priors, slots, states, keys)

    def choose_by_priors(
        self,
        priors: NDArray[np.float32],
        slots: Slots,
        states: NDArray[np.uint64],
        keys: NDArray[np.uint64],
    ) -> Actions:
        """Return actions chosen by the network's priors, float32[n, actions]."""
        chosen = np.empty(len(slots), np.int64)
        sample = self._plies[slots] < self._temperature_plies
        _choose_by_priors(self._game, states, priors, keys, sample, chosen)
        return chosen

    def advance(self, slots: Slots, actions: Actions) -> None:
        self._plies[slots] += 1


@kernel
def _choose_by_priors(game, states, priors, keys, sample, chosen):
    """Write a legal action for each of n states to `chosen`, int64[n].

    Where `sample`, bool[n], is set, actions are sampled in proportion to the priors. Elsewhere, an
    action with the highest prior is chosen, ties at random. If all priors of the legal actions are
    0, the choice is uniform.
    """
    weights = np.empty(priors.shape[1], np.float64)
    mask = np.empty(priors.shape[1], np.bool_)
    for i in range(states.shape[0]):
        rules.legal(game, states[i], mask)
        highest = 0.0
        for action in range(mask.shape[0]):
            if mask[action] and priors[i, action] > highest:
                highest = priors[i, action]
        total = 0.0
        last = 0
        for action in range(mask.shape[0]):
            weights[action] = 0.0
            if mask[action]:
                if sample[i] and highest > 0.0:
                    weights[action] = priors[i, action]
                elif priors[i, action] == highest or not highest > 0.0:
                    weights[action] = 1.0
                if weights[action] > 0.0:
                    last = action
            total += weights[action]
        drawn = streams.uniform(keys[i], 0) * total
        chosen[i] = last  # in case rounding leaves a remainder
        for action in range(mask.shape[0]):
            drawn -= weights[action]
            if drawn < 0.0:
                chosen[i] = action
                break


@dataclass(frozen=True)
class NetworkPlayerFactory:
    """Callable that creates a network's players; picklable if `load_evaluator` is."""

    game: Game
    name: str
    options: NetworkOptions
    load_evaluator: Callable[[], Evaluator]

    def __call__(self) -> Player:
        game, name, options, evaluator = self.game, self.name, self.options, self.load_evaluator()
        if options.simulations == 0:
            return PolicyPlayer(game, name, evaluator, options.temperature_plies)
        return SearchPlayer(
            game, name, options.search_settings, evaluator, options.temperature_plies
        )
