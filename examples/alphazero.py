"""AlphaZero on tic-tac-toe: self-play, learning and gating until the network plays perfectly.

zerolab provides the rules and the search. This file contains the network and the training loop,
which follow [Silver2018], with the gate of [Silver2017]. A run takes a few seconds on one core.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from itertools import count

import numpy as np
import torch
from torch import nn

from zerolab import ONGOING, Position, Search, SearchSettings, encode_batch, parse_game

GAME = parse_game("gobang:3x3:3")
MATCH = SearchSettings.model_validate({"simulations": 50})
ROOT_NOISE = {"fraction": 0.25, "concentration": 1.0}
SELF_PLAY = SearchSettings.model_validate({"simulations": 50, "noise": ROOT_NOISE})


class Network(nn.Module):
    """f(s) = (p, v): policy logits and the expected outcome for the side to move."""

    def __init__(self) -> None:
        super().__init__()
        hidden = nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
        self.trunk = nn.Sequential(nn.Flatten(), *hidden)
        self.policy, self.value = nn.Linear(64, 9), nn.Linear(64, 1)

    def forward(self, planes):
        features = self.trunk(planes)
        return self.policy(features), torch.tanh(self.value(features)).squeeze(1)

    @torch.no_grad()
    def evaluate(self, states):
        """Return the priors float32[n, 9] and values float32[n] that a search needs."""
        logits, values = self(torch.from_numpy(encode_batch(GAME, states)))
        return logits.softmax(1).numpy(), values.numpy()


def play(first, second, settings, games, temperature_plies, random):
    """Play games in parallel; return (states, policies, outcomes) and the results for `first`."""
    searches = [Search(GAME, settings, network, games) for network in (first, second)]
    ongoing = np.arange(games)
    for search in searches:
        search.set_root(ongoing, np.tile(Position.start(GAME).state, (games, 1)))
    results, plies = np.zeros(games, np.float32), []
    for ply in count():
        search, sign = searches[ply % 2], (-1) ** ply
        keys = random.integers(2**64, size=(2, len(ongoing)), dtype=np.uint64)
        search.start_search(ongoing, *keys)
        search.run()
        plies.append((search.root_states(ongoing), search.policies(ongoing), ongoing, sign))
        actions = search.choose(ongoing, keys[0], np.full(len(ongoing), ply < temperature_plies))
        for search in searches:
            search.advance(ongoing, actions)
        outcomes = search.root_outcomes(ongoing)  # for the next player to move
        over = outcomes != ONGOING
        results[ongoing[over]] = -sign * outcomes[over]
        ongoing = ongoing[~over]
        if not len(ongoing):
            break
    examples = [(states, policies, sign * results[rows]) for states, policies, rows, sign in plies]
    return tuple(map(np.concatenate, zip(*examples, strict=True))), results


def learn(network, window, random):
    """Return a copy of the network after 200 steps of training on recent games.

    The loss is (z - v)^2 - pi log p.
    """
    network = deepcopy(network)
    states, policies, outcomes = map(np.concatenate, zip(*window, strict=True))
    s, pi, z = map(torch.from_numpy, (encode_batch(GAME, states), policies, outcomes))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005, weight_decay=1e-4)
    for batch in torch.from_numpy(random.integers(len(z), size=(200, 128))):
        p, v = network(s[batch])
        loss = ((z[batch] - v) ** 2 - (pi[batch] * p.log_softmax(1)).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def score(candidate, best, random):
    """Return the candidate's points per game in 100 games; it moves first in half of the games."""
    _, as_first = play(candidate, best, MATCH, 50, 3, random)
    _, as_second = play(best, candidate, MATCH, 50, 3, random)
    return 0.5 + (as_first.mean() - as_second.mean()) / 4


def choose(network, positions):
    """Return the best action in each position after a search."""
    search, rows = Search(GAME, MATCH, network, len(positions)), np.arange(len(positions))
    search.set_root(rows, np.array([position.state for position in positions]))
    search.start_search(rows, *np.zeros((2, len(rows)), np.uint64))
    search.run()
    return search.policies(rows).argmax(1).tolist()


def lost_games(network):
    """Count the network's losses against all possible replies, moving first and second."""
    lost = 0
    for side in (0, 1):
        positions = [Position.start(GAME)]
        while positions:
            if positions[0].ply % 2 == side:
                pairs = zip(positions, choose(network, positions), strict=True)
                children = {position.play(action) for position, action in pairs}
            else:
                children = {
                    each.play(action) for each in positions for action in each.legal_actions
                }
                lost += sum(child.outcome == -1 for child in children)
            positions = [child for child in children if child.outcome is None]
    return lost


def main(iterations: int = 40) -> None:
    """Train until the best network cannot be beaten."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    random = np.random.default_rng(1)
    best, window = Network(), deque(maxlen=10)
    lost = lost_games(best)
    print(f"untrained: {lost} games lost")
    for iteration in range(1, iterations + 1):
        examples, _ = play(best, best, SELF_PLAY, 400, 9, random)
        window.append(examples)
        candidate = learn(best, window, random)
        points = score(candidate, best, random)
        if points >= 0.5:
            best, lost = candidate, lost_games(candidate)
        print(f"iteration {iteration}: {points:.0%} against the best network, {lost} games lost")
        if lost == 0:
            break


if __name__ == "__main__":
    main()
