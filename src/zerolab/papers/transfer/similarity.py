"""Similarity of trunks, layer by layer: linear CKA [Kornblith2019]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import best_device
from zerolab.networks.layers import ResidualBlock, folded_copy
from zerolab.networks.network import Network, load_weights
from zerolab.papers.transfer.measures import BySeed, Pair, board_title, pairs, runs_of
from zerolab.papers.transfer.study import FINE_TUNED, SCRATCH
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.xy_plots import Heat, draw_heat
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING, Game
from zerolab.store.arrays import read_network
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Level
from zerolab.studies.results import Results, TrainedRun
from zerolab.training.inputs import stored_settings

_BATCH = 1024
_FEWEST = 4
"""Least number of positions for the unbiased estimator."""


def trunk_activations(
    network: Network, game: Game, states: NDArray[np.uint64], device: torch.device | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the activations of the layers of a residual trunk for uint64[N, words] states.

    They are float32[N, filters * rows * columns] by name: ``stem``, ``adapter`` if there is one,
    ``block 1`` and so on, each after its ReLU. The board may differ in size from the one of
    training. Raises UserError for a trunk without residual blocks.
    """
    if not isinstance(network.trunk, nn.Sequential):
        raise UserError(
            'its network has no residual blocks to compare: expected one such as "resnet"'
        )
    device = device or best_device()
    trunk = folded_copy(network).trunk.to(device)
    found: dict[str, list[NDArray[np.float32]]] = {}
    for begin in range(0, len(states), _BATCH):
        planes = torch.from_numpy(python.encode_batch(game, states[begin : begin + _BATCH]))
        with torch.inference_mode():
            activations = planes.to(device)
            for name, layers in _stages(trunk).items():
                activations = layers(activations)
                found.setdefault(name, []).append(activations.flatten(1).cpu().numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _stages(trunk: nn.Module) -> dict[str, nn.Sequential]:
    """Return the layers of a residual trunk, grouped up to each ReLU that the next group reads."""
    stages: dict[str, nn.Sequential] = {}
    gathered: list[nn.Module] = []
    blocks = 0
    for module in trunk.children():
        gathered.append(module)
        if isinstance(module, ResidualBlock):
            blocks += 1
            stages[f"block {blocks}"] = nn.Sequential(*gathered)
        elif isinstance(module, nn.ReLU):
            stages["adapter" if stages else "stem"] = nn.Sequential(*gathered)
        else:
            continue
        gathered = []
    return stages


class Gram:
    """Inner products of centred activations, from which linear CKA follows.

    The estimator of HSIC is the unbiased one of [Song2012], used for CKA by [Nguyen2021]: the usual
    one calls any two networks alike that have more features than there are positions. It may be
    slightly below 0.
    """

    def __init__(self, activations: ArrayLike) -> None:
        """Take [N, features] activations; raise ValueError for fewer than four positions."""
        features = np.asarray(activations, np.float64)
        if len(features) < _FEWEST:
            raise ValueError(f"{len(features)} positions: expected at least {_FEWEST}")
        features = features - features.mean(axis=0)
        products = features @ features.T
        np.fill_diagonal(products, 0.0)
        self._products = products.astype(np.float32)
        self._sums: NDArray[np.float64] = products.sum(axis=1)
        self._norm = self._independence(self)

    def _independence(self, other: Gram) -> float:
        """Return the unbiased HSIC, up to the factor n (n - 3), which CKA divides out."""
        count = len(self._sums)
        # The entries are float32 to save memory; their products are summed up in float64.
        together = float(np.einsum("ij,ij->", self._products, other._products, dtype=np.float64))
        totals = float(self._sums.sum() * other._sums.sum())
        mixed = float(self._sums @ other._sums)
        return together + totals / ((count - 1) * (count - 2)) - 2.0 * mixed / (count - 2)

    def cka(self, other: Gram) -> float:
        """Return linear CKA with other activations on the same positions, at most 1.

        NaN if either set of activations does not distinguish positions.
        """
        if len(self._sums) != len(other._sums):
            raise ValueError(f"{len(self._sums)} and {len(other._sums)} positions")
        if self._norm <= 0.0 or other._norm <= 0.0:
            return float("nan")
        return self._independence(other) / float(np.sqrt(self._norm * other._norm))


def linear_cka(one: ArrayLike, other: ArrayLike) -> float:
    """Return the similarity of [N, features] activations of two layers on the same N positions.

    It is 1 if they are equal up to an orthogonal map and a factor, and about 0 if they are
    unrelated; the numbers of features may differ. See `Gram`.
    """
    return Gram(one).cka(Gram(other))


POSITIONS = 256
"""Distinct positions from random games of a board, on which trunks are compared."""
UNTRAINED = "untrained"
"""Networks 0 from scratch, in place of a board."""
_MOST_GAMES = 20 * POSITIONS

Layers = Mapping[str, Gram]
"""Activations of a network on the positions of a board, by layer."""


class LayerByLayer(NamedTuple):
    """Linear CKA between the trunks of finished runs, one number per layer."""

    layers: Sequence[str]
    fine_tuned: Mapping[Pair, Mapping[Level, Sequence[float]]]
    """Source and fine-tuned trunk, on positions of the target, by seed."""
    scratch: Mapping[Pair, Mapping[Level, Sequence[float]]]
    """Source and unrelated trunk from scratch, by the seed of both."""
    boards: Mapping[tuple[str, str], Sequence[Sequence[float]]]
    """All pairs of runs from scratch of two boards, on positions of the first.

    Runs of the same board have different seeds. The second board may be `UNTRAINED`."""

    def drop(self, pair: Pair) -> BySeed:
        """Return the CKA of the first layer minus that of the last one, by seed."""
        return {seed: each[0] - each[-1] for seed, each in self.fine_tuned[pair].items()}


def compare_trunks(results: Results) -> LayerByLayer:
    """Compare the trunks of all finished runs."""
    every = pairs(results.design)
    found = LayerByLayer([], {pair: {} for pair in every}, {pair: {} for pair in every}, {})
    for part in results.design.parts:
        if results.where(part, way=SCRATCH):
            found = _with_board(found, results, part)
    return found


def _with_board(found: LayerByLayer, results: Results, part: str) -> LayerByLayer:
    """Return the comparisons with those on positions of one more board."""
    here = results.where(part, way=SCRATCH)
    reader = _Reader(parse_game(here[0].planned.settings.game))
    trained = {
        (run.planned.part, run.factors["seed"]): reader.layers(run)
        for run in results.where(way=SCRATCH)
    }
    untrained = {(UNTRAINED, run.factors["seed"]): reader.layers(run, 0) for run in here}
    fine_tuned, scratch = dict(found.fine_tuned), dict(found.scratch)
    for pair in (each for each in fine_tuned if each.target == part):
        sources = {
            seed: layers for (board, seed), layers in trained.items() if board == pair.source
        }
        tuned = runs_of(results, pair, FINE_TUNED)
        fine_tuned[pair] = {
            seed: _alike(layers, reader.layers(tuned[seed]))
            for seed, layers in sources.items()
            if seed in tuned
        }
        scratch[pair] = {
            seed: _alike(layers, trained[part, seed])
            for seed, layers in sources.items()
            if (part, seed) in trained
        }
    boards = {**found.boards, **_between_boards(part, {**trained, **untrained})}
    return LayerByLayer(list(next(iter(trained.values()))), fine_tuned, scratch, boards)


def _between_boards(
    part: str, known: Mapping[tuple[str, Level], Layers]
) -> dict[tuple[str, str], list[Sequence[float]]]:
    """Return the CKA of the runs of a board with all unrelated runs."""
    found: dict[tuple[str, str], list[Sequence[float]]] = {}
    for ((board, seed), layers), ((other, another), theirs) in permutations(known.items(), 2):
        is_related = other in (part, UNTRAINED) and seed == another
        is_twice = other == part and str(another) < str(seed)
        if board == part and not is_related and not is_twice:
            found.setdefault((part, other), []).append(_alike(layers, theirs))
    return found


def _alike(one: Layers, other: Layers) -> list[float]:
    """Return the CKA layer by layer; all trunks of a study have the same layers."""
    return [one[name].cka(other[name]) for name in one]


class _Reader:
    """Reader of the activations of networks on some positions of a board."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._states = random_positions(game, POSITIONS)

    def layers(self, run: TrainedRun, iteration: int | None = None) -> Layers:
        """Return the layers of a run's network, by default the best one."""
        folder = RunFolder.open(run.path)
        best = folder.progress.best if iteration is None else iteration
        stored = read_network(folder.weights_path(best))
        network = build_network(stored_settings(stored), parse_game(stored.game), seed=0)
        load_weights(network, stored.weights)
        activations = trunk_activations(network, self._game, self._states)
        return {name: Gram(each) for name, each in activations.items()}


def random_positions(game: Game, count: int) -> NDArray[np.uint64]:
    """Return distinct positions of random games before their end, one per game.

    uint64[N, words]; fewer than `count` if the game has fewer.
    """
    random = np.random.default_rng(0)
    found: dict[bytes, NDArray[np.uint64]] = {}
    for _ in range(_MOST_GAMES):
        if len(found) == count:
            break
        line = [python.start(game)]
        while True:
            action = int(random.choice(np.flatnonzero(python.legal(game, line[-1]))))
            state = python.apply(game, line[-1], action)
            if python.outcome(game, state) != ONGOING:
                break
            line.append(state)
        chosen = line[int(random.integers(len(line)))]
        found.setdefault(chosen.tobytes(), chosen)
    return np.stack(list(found.values()))


def similarity_blocks(results: Results, trunks: LayerByLayer) -> Iterator[Block]:
    """Yield figures of the similarity of trunks."""
    if not trunks.boards:
        return
    yield Heading("Similarity of trunks")
    yield Paragraph(
        f"Linear CKA of activations on {POSITIONS} positions of random games: 1 for layers that are"
        " equal up to an orthogonal map and a factor, 0 for unrelated ones. The estimator is the"
        " unbiased one [Song2012]; the usual one calls any two networks alike that have more"
        " activations than there are positions. Both networks get the same positions, encoded"
        " alike, so even untrained trunks are somewhat similar: they are the reference."
    )
    yield from _of_pairs(trunks)
    yield from _of_boards(results, trunks)


def _of_pairs(trunks: LayerByLayer) -> Iterator[Block]:
    rows = [pair for pair in trunks.fine_tuned if trunks.fine_tuned[pair] and trunks.scratch[pair]]
    if not rows:
        return
    maps = {
        title: Heat(
            [pair.title for pair in rows],
            trunks.layers,
            np.array([np.mean(list(of_pairs[pair].values()), axis=0) for pair in rows]),
            np.array([_spread(list(of_pairs[pair].values())) for pair in rows]),
        )
        for title, of_pairs in (("fine-tuned", trunks.fine_tuned),
                                ("from scratch", trunks.scratch))
    }  # fmt: skip
    yield Picture(
        "cka-fine-tuned",
        draw_heat(maps, "Similarity of the source's trunk and another one", "boards", "layer",
                  "linear CKA", number_format=".2f"),
        "Left: a trunk after fine-tuning and the source from which it started. Right: a trunk from"
        " scratch on the same board and that source. Positions are of the target.",
    )  # fmt: skip


def _of_boards(results: Results, trunks: LayerByLayer) -> Iterator[Block]:
    boards = [part for part in results.design.parts if (part, UNTRAINED) in trunks.boards]
    others = [*boards, UNTRAINED]
    if len(results.levels("seed")) < 2 or not boards:
        return
    maps = {}
    for number, layer in enumerate(trunks.layers):
        values = np.full((len(boards), len(others)), np.nan)
        for row, column in np.ndindex(values.shape):
            one, other = boards[row], others[column]
            known = [*trunks.boards.get((one, other), []), *trunks.boards.get((other, one), [])]
            if known:
                values[row, column] = np.mean([each[number] for each in known])
        maps[layer] = Heat(_titles(boards), _titles(others), values)
    yield Picture(
        "cka-boards",
        draw_heat(maps, "Similarity of trunks from scratch", "trained on", "trained on",
                  "linear CKA", columns=1, number_format=".2f"),
        "Means over all pairs of unrelated runs, on positions of both boards; on the diagonal, runs"
        " of the board with different seeds. Untrained trunks are compared on positions of the"
        " row's board.",
    )  # fmt: skip


def _titles(parts: Sequence[str]) -> list[str]:
    return [
        part if part == UNTRAINED else "\n".join(board_title(part).rsplit(" ", 1)) for part in parts
    ]


def _spread(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return standard deviations by layer; NaN for fewer than two rows."""
    if len(rows) < 2:
        return np.full(len(rows[0]), np.nan)
    return np.asarray(np.std(rows, axis=0, ddof=1))
