"""Rolling horizon evolutionary algorithm (RHEA) [Perez2013], which evolves plans for each move.

An individual is a plan with one gene for each of the player's next actions. A gene consists of 64
random bits. `rules.random_action` maps these bits to a legal action in the position that the plan
has reached, so every plan is legal. Defaults follow [Wang2020b]; docs/papers.md lists the choices
where the paper leaves details open.
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
    """Settings of the evolution; every move uses exactly `playouts` playouts."""

    playouts: int = Field(default=100, ge=1, le=1_000_000)
    """N: playouts per move. [Wang2020b]: 100. The last individual is evaluated with the remaining
    playouts, possibly fewer than `playouts_each`."""

    population: int = Field(default=10, ge=1, le=10_000)
    """mu in (mu + 1) evolution: population size. [Wang2020b]: 10."""

    horizon: int = Field(default=10, ge=1, le=MAX_PLIES)
    """Number of the player's actions in a plan; later moves are random. [Wang2020b]: 10."""

    mutation: float = Field(default=0.2, ge=0, le=1)
    """Probability of redrawing each gene of an offspring. [Wang2020b]: 0.2. An offspring without
    mutations is still evaluated."""

    playouts_each: int = Field(default=2, ge=1, le=1_000_000)
    """Playouts per individual. Each individual is evaluated once, when created. [Wang2020b]: 2."""

    @model_validator(mode="after")
    def _enough_playouts(self) -> RheaSettings:
        needed = self.population * self.playouts_each
        if self.playouts < needed:
            raise ValueError(
                f"playouts = {self.playouts} is too small for a population of {self.population}"
                f" with {self.playouts_each} playouts each: expected at least {needed}"
            )
        return self


class Population(NamedTuple):
    """Population of individuals; empty slots have fitness -inf."""

    genes: NDArray[np.uint64]  # [population, horizon]
    fitness: NDArray[np.float64]  # [population] mean of Q / h, in [-1, 1]; see `evaluate_plan`
    birth_number: NDArray[np.int64]  # [population] numbers of the individuals, from 0


def empty_population(size: int, horizon: int) -> Population:
    """Return a population of empty slots."""
    genes = np.zeros((size, horizon), np.uint64)
    return Population(genes, np.full(size, -np.inf), np.zeros(size, np.int64))


def rhea_actions(
    game: Game, settings: RheaSettings, states: NDArray[np.uint64], keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return evolved actions, int64[n], for ongoing states uint64[n, words].

    Each action depends only on its state, its random stream in `keys`, uint64[n], and the settings.
    """
    chosen = np.empty(len(states), np.int64)
    population = empty_population(settings.population, settings.horizon)
    budget = settings.playouts, settings.playouts_each
    _choose(game, states, keys, budget, settings.mutation, population, chosen)
    return chosen


@kernel
def _choose(game, states, keys, budget, mutation, population, chosen):
    words = rules.word_count(game)
    workspace = (
        np.empty(population.genes.shape[1], np.uint64),
        np.empty(words, np.uint64),
        np.empty(words, np.uint64),
        np.zeros(1 + MAX_PLIES, np.int32),
    )
    for i in range(states.shape[0]):
        _evolve(game, states[i], keys[i], budget, mutation, population, workspace)
        gene = population.genes[best_individual(population), 0]
        chosen[i] = rules.random_action(game, states[i], gene)


@inlined
def _evolve(game, root, key, budget, mutation, population, workspace):
    """Spend the budget on a random initial population and then on one offspring at a time."""
    playouts, playouts_each = budget
    offspring = workspace[0]
    population.fitness[:] = -np.inf
    population.birth_number[:] = 0
    number = 0
    spent = 0
    while spent < playouts:
        individual_key = streams.fold_in(key, number)
        # Redrawing every gene produces a random individual.
        rate = mutation if number >= population.fitness.shape[0] else 1.0
        breed(population, streams.fold_in(individual_key, 0), rate, offspring)
        count = min(playouts_each, playouts - spent)
        fitness = evaluate_plan(game, root, streams.fold_in(individual_key, 1), count, workspace)
        insert_individual(population, offspring, fitness, number)
        spent += count
        number += 1


@inlined
def breed(population, key, mutation, offspring):
    """Write the mutated genes of a uniformly drawn parent to `offspring`, uint64[horizon]."""
    parent = streams.random_below(streams.random_bits(key, 0), population.fitness.shape[0])
    for i in range(offspring.shape[0]):
        offspring[i] = population.genes[parent, i]
        if streams.uniform(key, 1 + 2 * i) < mutation:
            offspring[i] = streams.random_bits(key, 2 + 2 * i)


@inlined
def evaluate_plan(game, root, key, playouts, workspace):
    """Return the fitness of a plan: the mean of Q / h over its playouts [Wang2020b].

    Q is the outcome of a game and h is its length in plies. `workspace` contains the genes of the
    plan, uint64[horizon]; two states for playouts, uint64[words]; and the moves of `rules.playout`,
    int32[1 + MAX_PLIES].
    """
    total = 0.0
    for playout in range(playouts):
        total += _play(game, root, streams.fold_in(key, playout), workspace)
    return total / playouts


@inlined
def _play(game, root, key, workspace):
    """Play one game; return Q / h: the outcome for the side to move at `root`, per ply."""
    genes, state, scratch, moves = workspace
    copy_row(root, state)
    for ply in range(2 * genes.shape[0]):
        random = genes[ply // 2] if ply % 2 == 0 else streams.random_bits(key, ply)
        rules.apply(game, state, rules.random_action(game, state, random), state)
        outcome = rules.outcome(game, state)
        if outcome != ONGOING:
            return (outcome if ply % 2 == 1 else -outcome) / (ply + 1)
    outcome = rules.playout(game, state, streams.fold_in(key, 0), scratch, moves)
    return outcome / (2 * genes.shape[0] + moves[0])


@inlined
def insert_individual(population, genes, fitness, birth_number):
    """Replace the worst individual with a new individual, unless the new one is worse.

    If several individuals are equally bad, the oldest is replaced. A new individual that is as good
    as the worst also replaces it.
    """
    worst = 0
    for i in range(1, population.fitness.shape[0]):
        if population.fitness[i] < population.fitness[worst] or (
            population.fitness[i] == population.fitness[worst]
            and population.birth_number[i] < population.birth_number[worst]
        ):
            worst = i
    if fitness >= population.fitness[worst]:
        copy_row(genes, population.genes[worst])
        population.fitness[worst] = fitness
        population.birth_number[worst] = birth_number


@inlined
def best_individual(population):
    """Return the index of the fittest individual; ties go to the youngest."""
    fittest = 0
    for i in range(1, population.fitness.shape[0]):
        if population.fitness[i] > population.fitness[fittest] or (
            population.fitness[i] == population.fitness[fittest]
            and population.birth_number[i] > population.birth_number[fittest]
        ):
            fittest = i
    return fittest
