"""Plain reference implementation of rolling horizon evolution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import rules
from zerolab.rules.position import Position
from zerolab.search.rhea import RheaSettings


class Individual(NamedTuple):
    """A plan, ordered by fitness and then by age: the older of two equals is smaller."""

    fitness: float
    number: int
    genes: list[int]


@kernel
def _playout(game, state, key, moves):
    return rules.playout(game, state, key, state.copy(), moves)


def _fold(key, part):
    return np.uint64(streams.fold_in(key, part))


def _bits(key, number):
    return int(streams.random_bits(key, number))


def read(gene: int, position: Position) -> int:
    """Return the legal action of a gene, which is a fraction of 2**64."""
    legal = position.legal_actions
    return legal[len(legal) * gene >> 64]


def _quotient(root: Position, genes: list[int], key: np.uint64) -> float:
    """Return Q / h, the outcome divided by the number of plies, of one playout."""
    position = root
    while position.outcome is None and position.ply - root.ply < 2 * len(genes):
        ply = position.ply - root.ply
        random = genes[ply // 2] if ply % 2 == 0 else _bits(key, ply)
        position = position.play(read(random, position))
    h = position.ply - root.ply
    if position.outcome is not None:
        return (position.outcome if h % 2 == 0 else -position.outcome) / h
    moves = np.zeros(1 + rules.MAX_PLIES, np.int32)
    outcome = _playout(root.game, position.state.copy(), _fold(key, 0), moves)
    return outcome / (h + int(moves[0]))


def evolve(root: Position, key: np.uint64, settings: RheaSettings) -> list[Individual]:
    """Return the final population."""
    population: list[Individual] = []
    remaining = settings.playouts
    number = 0
    while remaining:
        individual_key = _fold(key, number)
        breeding_key = _fold(individual_key, 0)
        genes = [_bits(breeding_key, 2 + 2 * i) for i in range(settings.horizon)]
        if number >= settings.population:
            parent = population[settings.population * _bits(breeding_key, 0) >> 64]
            for i, gene in enumerate(parent.genes):
                if (_bits(breeding_key, 1 + 2 * i) >> 11) / 2**53 >= settings.mutation:
                    genes[i] = gene
        count = min(settings.playouts_each, remaining)
        evaluation_key = _fold(individual_key, 1)
        quotients = [_quotient(root, genes, _fold(evaluation_key, k)) for k in range(count)]
        population.append(Individual(sum(quotients) / count, number, genes))
        if len(population) > settings.population:
            worst = population.index(min(population))
            population[worst] = population[-1]
            population.pop()
        remaining -= count
        number += 1
    return population


def choose(root: Position, key: np.uint64, settings: RheaSettings) -> int:
    """Return the first action of the best individual."""
    return read(max(evolve(root, key, settings)).genes[0], root)
