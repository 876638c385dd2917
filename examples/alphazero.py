"""AlphaZero on tic-tac-toe: self-play, learning and a gate, repeated until play is perfect.

Rules and search are zerolab's; the network and the loop are written out. It follows [Silver2018],
with the gate of [Silver2017], and takes a few seconds on one core.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from itertools import count

import numpy as np
import torch
from torch import nn

from zerolab import Position, Search, SearchSettings, parse_game
from zerolab.rules.python import encode_batch
from zerolab.rules.rules import LOSS, ONGOING

GAME = parse_game("gobang:3x3:3")
WITH_NOISE = {"fraction": 0.25, "concentration": 1.0}  # epsilon and alpha of the root noise
SELF_PLAY = SearchSettings.model_validate({"simulations": 50, "noise": WITH_NOISE})
MATCH = SearchSettings.model_validate({"simulations": 50})


class Network(nn.Module):
    """f(s) = (p, v): logits of a policy, and the outcome that the player to move expects."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Flatten(), nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
        )
        self.policy, self.value = nn.Linear(64, 9), nn.Linear(64, 1)

    def forward(self, planes):
        features = self.trunk(planes)
        return self.policy(features), torch.tanh(self.value(features)).squeeze(1)

    @torch.no_grad()
    def evaluate(self, states):
        """Return priors float32[n, 9] and values float32[n]: what a search asks a network for."""
        logits, values = self(torch.from_numpy(encode_batch(GAME, states)))
        return logits.softmax(1).numpy(), values.numpy()


def play(first, second, settings, games, temperature_plies, random):
    """Play games in lockstep; return states, search policies and outcomes, and all results."""
    searches = [Search(GAME, settings, network, games) for network in (first, second)]
    playing = np.arange(games)
    for search in searches:
        search.set_root(playing, np.repeat(Position.start(GAME).state[None], games, axis=0))
    results, examples = np.zeros(games, np.float32), []
    for ply in count():
        search, sign = searches[ply % 2], (-1) ** ply  # the player to move, and its view
        keys = random.integers(2**64, size=(2, len(playing)), dtype=np.uint64)
        search.start_search(playing, *keys)
        search.run()
        examples.append((search.states(playing), search.policies(playing), playing, sign))
        sample = np.full(len(playing), ply < temperature_plies)
        actions = search.choose(playing, keys[0], sample)
        for search in searches:
            search.advance(playing, actions)
        outcomes = search.outcomes(playing)  # seen by the player to move, who is the other one now
        over = outcomes != ONGOING
        results[playing[over]] = -sign * outcomes[over]
        playing = playing[~over]
        if not len(playing):
            break
    states, policies, played, signs = zip(*examples, strict=True)
    z = [sign * results[games] for games, sign in zip(played, signs, strict=True)]
    return tuple(map(np.concatenate, (states, policies, z))), results


def learn(network, window, random):
    """Return the network after 400 steps on (z - v)^2 - pi log p over the latest games."""
    network = deepcopy(network)
    states, policies, outcomes = (np.concatenate(column) for column in zip(*window, strict=True))
    s, pi, z = map(torch.from_numpy, (encode_batch(GAME, states), policies, outcomes))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003, weight_decay=1e-4)
    for batch in torch.from_numpy(random.integers(len(z), size=(400, 128))):
        p, v = network(s[batch])
        loss = ((z[batch] - v) ** 2 - (pi[batch] * p.log_softmax(1)).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def score(candidate, best, random):
    """Return the candidate's share of the points of 100 games, half of them with each colour."""
    as_first = play(candidate, best, MATCH, 50, 3, random)[1]
    as_second = play(best, candidate, MATCH, 50, 3, random)[1]
    return 0.5 + (as_first.mean() - as_second.mean()) / 4


def lost_games(network):
    """Count the lines in which the network loses, over all replies and with both colours."""
    lost, key = 0, np.zeros(1, np.uint64)
    for own_ply in (0, 1):
        positions = {Position.start(GAME)}
        for ply in count():
            if ply % 2 == own_ply:
                search = Search(GAME, MATCH, network, len(positions))
                rows = np.arange(len(positions))
                search.set_root(rows, np.array([position.state for position in positions]))
                search.start_search(rows, key.repeat(len(rows)), key.repeat(len(rows)))
                search.run()
                actions = search.policies(rows).argmax(axis=1)
                after = {p.play(int(a)) for p, a in zip(positions, actions, strict=True)}
            else:
                after = {p.play(action) for p in positions for action in p.legal_actions}
                lost += sum(position.outcome == LOSS for position in after)
            positions = {position for position in after if position.outcome is None}
            if not positions:
                break
    return lost


def main(iterations: int = 40) -> int:
    """Iterate until the best network loses to no line of play; return how many it still loses."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    best, window = Network(), deque(maxlen=10)
    lost = lost_games(best)
    print(f"untrained: {lost} games lost")
    for iteration in range(1, iterations + 1):
        examples, _ = play(best, best, SELF_PLAY, 200, 9, random)
        window.append(examples)
        candidate = learn(best, window, random)
        points = score(candidate, best, random)
        if points >= 0.5:
            best, lost = candidate, lost_games(candidate)
        print(f"iteration {iteration}: {points:.0%} against the best network, {lost} games lost")
        if lost == 0:
            break
    return lost


if __name__ == "__main__":
    main()
