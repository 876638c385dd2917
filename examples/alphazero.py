"""AlphaZero on tic-tac-toe: self-play, learning and gating until the network plays perfectly.

zerolab provides the rules and the search. This file contains the network and the training loop,
which follow [Silver2018], with the gate of [Silver2017]. To keep it short, every move begins a new
search tree. A run takes a few seconds on one core.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy

import numpy as np
import torch
from torch import nn

from zerolab import Position, Search, SearchSettings, encode_batch, parse_game

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


def search(network, positions, settings, random):
    """Search all positions in one batch; return the states and the visit shares, float32[n, 9]."""
    states, trees = np.array([each.state for each in positions]), np.arange(len(positions))
    batch = Search(GAME, settings, network, len(positions))
    batch.set_root(trees, states)
    batch.start_search(trees, *random.integers(2**64, size=(2, len(trees)), dtype=np.uint64))
    batch.run()
    return states, batch.policies(trees)


def play(first, second, settings, games, temperature_plies, random):
    """Play games in parallel; return (states, policies, outcomes) and the results for `first`."""
    positions, ongoing = np.full(games, Position.start(GAME)), np.arange(games)
    results, plies = np.zeros(games, np.float32), []
    while len(positions):
        network, sign = ((first, 1), (second, -1))[len(plies) % 2]
        states, policies = search(network, positions, settings, random)
        # The action with the largest policy / noise is a random draw from the policy.
        is_random = len(plies) < temperature_plies
        noise = random.exponential(size=policies.shape) if is_random else 1.0
        pairs = zip(positions, (policies / noise).argmax(1), strict=True)
        positions = np.array([position.play(action) for position, action in pairs])
        plies.append((states, policies, ongoing, sign))
        outcomes = np.array([each.first_player_outcome for each in positions], np.float32)
        is_ongoing = np.isnan(outcomes)  # outcomes of ongoing games are None
        results[ongoing[~is_ongoing]] = outcomes[~is_ongoing]
        positions, ongoing = positions[is_ongoing], ongoing[is_ongoing]
    examples = [(states, policies, sign * results[rows]) for states, policies, rows, sign in plies]
    return tuple(map(np.concatenate, zip(*examples, strict=True))), results


def learn(network, window, random):
    """Return a copy trained for 200 steps on recent games, with the loss (z - v)^2 - pi log p."""
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
    """Return the candidate's points per game in 100 games, moving first in half of the games."""
    _, as_first = play(candidate, best, MATCH, 50, 3, random)
    _, as_second = play(best, candidate, MATCH, 50, 3, random)
    return 0.5 + (as_first.mean() - as_second.mean()) / 4


def lost_games(network, random):
    """Count the network's losses against all possible replies, moving first and second."""
    lost = 0
    for side, loss in ((0, -1), (1, 1)):  # the result for the first player if `side` loses
        positions = [Position.start(GAME)]
        while positions:
            if positions[0].ply % 2 == side:
                moves = search(network, positions, MATCH, random)[1].argmax(1)[:, None]
            else:
                moves = [each.legal_actions for each in positions]
            pairs = zip(positions, moves, strict=True)
            children = {position.play(action) for position, actions in pairs for action in actions}
            lost += sum(each.first_player_outcome == loss for each in children)
            positions = [each for each in children if each.outcome is None]
    return lost


def main(iterations: int = 40) -> None:
    """Train until the best network cannot be beaten."""
    torch.manual_seed(3)
    torch.set_num_threads(1)
    random = np.random.default_rng(3)
    best, window = Network(), deque(maxlen=10)
    lost = lost_games(best, random)
    print(f"untrained: {lost} games lost")
    for iteration in range(1, iterations + 1):
        examples, _ = play(best, best, SELF_PLAY, 400, 9, random)
        window.append(examples)
        candidate = learn(best, window, random)
        points = score(candidate, best, random)
        if points >= 0.5:
            best, lost = candidate, lost_games(candidate, random)
        print(f"iteration {iteration}: {points:.0%} against the best network, {lost} games lost")
        if lost == 0:
            break


if __name__ == "__main__":
    main()
