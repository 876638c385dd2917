"""Rolling horizon evolution (RHEA) [Perez2013]: a plan of own actions, evolved for each move.

An individual is a plan: one gene for each of the next own actions. A gene is 64 random bits, that
is, a real number in [0, 1) in fixed point, which `rules.random_action` maps to the legal actions of
the position where it is read, so every plan is legal. Default values are those of [Wang2020b];
docs/papers.md lists how open points were resolved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.config import Settings
from zerolab.core.memory import copy_row
from zerolab.rules import rules
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game


class RheaSettings(Settings):
    """Evolution of plans; the budget is exactly `playouts`."""

    playouts: int = Field(default=100, ge=1, le=1_000_000)
    """N: playouts per move. [Wang2020b]: 100. The last individual gets the remaining ones, possibly
    fewer than `playouts_each`."""

    population: int = Field(default=10, ge=1, le=10_000)
    """mu of the (mu + 1) evolution: size of the population. [Wang2020b]: 10."""

    horizon: int = Field(default=10, ge=1, le=MAX_PLIES)
    """Own actions in a plan; the rest of the game is random. [Wang2020b]: 10."""

    mutation: float = Field(default=0.2, ge=0, le=1)
    """Probability of redrawing each gene of an offspring. [Wang2020b]: 0.2. An offspring without
    any mutation is evaluated all the same."""

    playouts_each: int = Field(default=2, ge=1, le=1_000_000)
    """Playouts that evaluate an individual, once, at its birth. [Wang2020b]: 2."""

    @model_validator(mode="after")
    def _enough_playouts(self) -> RheaSettings:
        needed = self.population * self.playouts_each
        if self.playouts < needed:
            raise ValueError(
                f"{self.playouts} playouts do not evaluate a population of {self.population}"
                f" with {self.playouts_each} each: expected at least {needed}"
            )
        return self


class Population(NamedTuple):
    """Living individuals; empty places have fitness -inf."""

    genes: NDArray[np.uint64]  # [population, horizon]
    fitness: NDArray[np.float64]  # [population] mean of Q / h, in [-1, 1]
    born: NDArray[np.int64]  # [population] number of the evaluation, from 0


def empty_population(size: int, horizon: int) -> Population:
    """Return a population without individuals."""
    genes = np.zeros((size, horizon), np.uint64)
    return Population(genes, np.full(size, -np.inf), np.zeros(size, np.int64))


def rhea_actions(
    game: Game, settings: RheaSettings, states: NDArray[np.uint64], keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the actions, int64[n], that evolution chooses in ongoing states uint64[n, words].

    Each depends on its state, its random stream in `keys`, uint64[n], and the settings alone.
    """
    chosen = np.empty(len(states), np.int64)
    population = empty_population(settings.population, settings.horizon)
    budget = settings.playouts, settings.playouts_each
    _choose(game, states, keys, budget, settings.mutation, population, chosen)
    return chosen


@kernel
def _choose(game, states, keys, budget, mutation, population, chosen):
    words = rules.words(game)
    workspace = (
        np.empty(population.genes.shape[1], np.uint64),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.zeros(1 + MAX_PLIES, np.int32),
    )
    for i in range(states.shape[0]):
        _evolve(game, states[i], keys[i], budget, mutation, population, workspace)
        gene = population.genes[best(population), 0]
        chosen[i] = rules.random_action(game, states[i], gene)


@inlined
def _evolve(game, root, key, budget, mutation, population, workspace):
    """Spend the budget on individuals, first drawn at random, then bred one at a time."""
    playouts, playouts_each = budget
    offspring = workspace[0]
    population.fitness[:] = -np.inf
    population.born[:] = 0
    number = 0
    spent = 0
    while spent < playouts:
        own = streams.fold(key, number)
        # With every gene redrawn, an offspring is a random individual.
        rate = mutation if number >= population.fitness.shape[0] else 1.0
        breed(population, streams.fold(own, 0), rate, offspring)
        count = min(playouts_each, playouts - spent)
        fitness = evaluate(game, root, streams.fold(own, 1), count, workspace)
        enter(population, offspring, fitness, number)
        spent += count
        number += 1


@inlined
def breed(population, key, mutation, offspring):
    """Write the genes of a mutated clone of a uniformly drawn parent into uint64[horizon]."""
    parent = streams.below(streams.bits(key, 0), population.fitness.shape[0])
    for i in range(offspring.shape[0]):
        offspring[i] = population.genes[parent, i]
        if streams.uniform(key, 1 + 2 * i) < mutation:
            offspring[i] = streams.bits(key, 2 + 2 * i)


@inlined
def evaluate(game, root, key, playouts, workspace):
    """Return a plan's fitness, the mean of Q / h over its playouts [Wang2020b].

    `workspace` consists of the plan's genes uint64[horizon], two states uint64[words] for playouts,
    and the moves int32[1 + MAX_PLIES] of `rules.playout`.
    """
    total = 0.0
    for playout in range(playouts):
        total += _play(game, root, streams.fold(key, playout), workspace)
    return total / playouts


@inlined
def _play(game, root, key, workspace):
    """Return Q / h of one game: its outcome Q for the mover of `root`, over its plies h."""
    genes, state, scratch, moves = workspace
    copy_row(root, state)
    for ply in range(2 * genes.shape[0]):
        random = genes[ply // 2] if ply % 2 == 0 else streams.bits(key, ply)
        rules.apply(game, state, rules.random_action(game, state, random), state)
        outcome = rules.outcome(game, state)
        if outcome != ONGOING:
            return (outcome if ply % 2 == 1 else -outcome) / (ply + 1)
    outcome = rules.playout(game, state, streams.fold(key, 0), scratch, moves)
    return outcome / (2 * genes.shape[0] + moves[0])


@inlined
def enter(population, genes, fitness, number):
    """Let individual `number` replace the worst one, unless it is worse than all.

    Of equally bad ones the oldest is dropped, so never a new one that is as good as another.
    """
    worst = 0
    for i in range(1, population.fitness.shape[0]):
        if population.fitness[i] < population.fitness[worst] or (
            population.fitness[i] == population.fitness[worst]
            and population.born[i] < population.born[worst]
        ):
            worst = i
    if fitness >= population.fitness[worst]:
        copy_row(genes, population.genes[worst])
        population.fitness[worst] = fitness
        population.born[worst] = number


@inlined
def best(population):
    """Return the index of the fittest individual, among equals the youngest."""
    found = 0
    for i in range(1, population.fitness.shape[0]):
        if population.fitness[i] > population.fitness[found] or (
            population.fitness[i] == population.fitness[found]
            and population.born[i] > population.born[found]
        ):
            found = i
    return found
