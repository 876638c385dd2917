"""Layer-by-layer similarity of trunks with linear CKA [Kornblith2019]."""

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
from zerolab.networks.inference import default_device
from zerolab.networks.layers import ResidualBlock, folded_copy
from zerolab.networks.network import Network, set_weights
from zerolab.papers.transfer.measures import (
    BoardPair,
    BySeed,
    board_title,
    planned_pairs,
    runs_by_seed,
)
from zerolab.papers.transfer.study import FINE_TUNED, SCRATCH
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.xy_plots import HeatMap, draw_heat_maps
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING, Game
from zerolab.store.arrays import read_network_file
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Level
from zerolab.studies.results import Results, TrainedRun
from zerolab.training.inputs import stored_network_settings

_BATCH = 1024
_FEWEST = 4
"""Smallest number of positions for the unbiased estimator."""


def trunk_activations(
    network: Network, game: Game, states: NDArray[np.uint64], device: torch.device | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the activations of each layer of a residual trunk for uint64[N, words] states.

    The activations are float32[N, filters * rows * columns], taken after the ReLU. The layers are
    named ``stem``, ``adapter`` (if there is one), ``block 1``, ``block 2`` and so on. The board can
    differ in size from that of training. Raise UserError if the trunk has no residual blocks.
    """
    if not isinstance(network.trunk, nn.Sequential):
        raise UserError(
            'the network has no residual blocks to compare: expected a network such as "resnet"'
        )
    device = device or default_device()
    trunk = folded_copy(network).trunk.to(device)
    batches: dict[str, list[NDArray[np.float32]]] = {}
    for begin in range(0, len(states), _BATCH):
        planes = torch.from_numpy(compiled_rules.encode_batch(game, states[begin : begin + _BATCH]))
        with torch.inference_mode():
            activations = planes.to(device)
            for name, layers in _named_layers(trunk).items():
                activations = layers(activations)
                batches.setdefault(name, []).append(activations.flatten(1).cpu().numpy())
    return {name: np.concatenate(arrays) for name, arrays in batches.items()}


def _named_layers(trunk: nn.Module) -> dict[str, nn.Sequential]:
    """Group the modules of a residual trunk into layers that end after a ReLU."""
    layers: dict[str, nn.Sequential] = {}
    current: list[nn.Module] = []
    blocks = 0
    for module in trunk.children():
        current.append(module)
        if isinstance(module, ResidualBlock):
            blocks += 1
            layers[f"block {blocks}"] = nn.Sequential(*current)
        elif isinstance(module, nn.ReLU):
            layers["adapter" if layers else "stem"] = nn.Sequential(*current)
        else:
            continue
        current = []
    return layers


class GramMatrix:
    """Gram matrix of centred activations, for computing linear CKA.

    CKA uses the unbiased HSIC estimator of [Song2012], as in [Nguyen2021]. The usual estimator
    makes any two networks look similar if they have more features than there are positions. The
    unbiased estimate can be slightly negative.
    """

    def __init__(self, activations: ArrayLike) -> None:
        """Compute inner products of [N, features] activations; N < 4 raises ValueError."""
        features = np.asarray(activations, np.float64)
        if len(features) < _FEWEST:
            raise ValueError(f"{len(features)} positions: expected at least {_FEWEST}")
        features = features - features.mean(axis=0)
        products = features @ features.T
        np.fill_diagonal(products, 0.0)
        self._products = products.astype(np.float32)
        self._sums: NDArray[np.float64] = products.sum(axis=1)
        self._norm = self._independence(self)

    def _independence(self, other: GramMatrix) -> float:
        """Return the unbiased HSIC times n (n - 3), a factor that cancels in CKA."""
        count = len(self._sums)
        # The entries are float32 to save memory, but their products are summed in float64.
        trace = float(np.einsum("ij,ij->", self._products, other._products, dtype=np.float64))
        totals = float(self._sums.sum() * other._sums.sum())
        mixed = float(self._sums @ other._sums)
        return trace + totals / ((count - 1) * (count - 2)) - 2.0 * mixed / (count - 2)

    def cka(self, other: GramMatrix) -> float:
        """Return the linear CKA with other activations on the same positions; at most 1.

        Return NaN if either set of activations is the same for all positions.
        """
        if len(self._sums) != len(other._sums):
            raise ValueError(
                f"{len(self._sums)} and {len(other._sums)} positions: expected equal numbers"
            )
        if self._norm <= 0.0 or other._norm <= 0.0:
            return float("nan")
        return self._independence(other) / float(np.sqrt(self._norm * other._norm))


def linear_cka(one: ArrayLike, other: ArrayLike) -> float:
    """Return the linear CKA of two layers from [N, features] activations on the same N positions.

    CKA is 1 for activations that are equal up to an orthogonal map and a factor, and about 0 for
    unrelated activations. The number of features can differ. See `GramMatrix` for the estimator.
    """
    return GramMatrix(one).cka(GramMatrix(other))


POSITIONS = 256
"""Number of distinct positions from random games on which trunks are compared."""
UNTRAINED = "untrained"
"""Label of untrained networks from scratch, used in place of a board."""
_MOST_GAMES = 20 * POSITIONS

GramByLayer = Mapping[str, GramMatrix]
"""Gram matrices of a network's activations, by layer."""


class TrunkSimilarity(NamedTuple):
    """Linear CKA between the trunks of finished runs: one number per layer."""

    layer_names: Sequence[str]
    fine_tuned: Mapping[BoardPair, Mapping[Level, Sequence[float]]]
    """CKA of source and fine-tuned trunk on positions of the target, by pair and seed."""
    scratch: Mapping[BoardPair, Mapping[Level, Sequence[float]]]
    """CKA of source trunk and trunk from scratch on positions of the target, by pair and seed."""
    between_boards: Mapping[tuple[str, str], Sequence[Sequence[float]]]
    """CKA of all pairs of runs from scratch on two boards, on positions of the first board.

    Runs on the same board have different seeds. The second board can be `UNTRAINED`."""

    def first_minus_last_layer(self, pair: BoardPair) -> BySeed:
        """Return the CKA of the first layer minus the CKA of the last layer, by seed."""
        return {seed: layers[0] - layers[-1] for seed, layers in self.fine_tuned[pair].items()}


def compare_trunks(results: Results) -> TrunkSimilarity:
    """Compare the trunks of all finished runs."""
    board_pairs = planned_pairs(results.design)
    trunks = TrunkSimilarity(
        [], {pair: {} for pair in board_pairs}, {pair: {} for pair in board_pairs}, {}
    )
    for part in results.design.parts:
        if results.runs_where(part, way=SCRATCH):
            trunks = _with_board(trunks, results, part)
    return trunks


def _with_board(trunks: TrunkSimilarity, results: Results, part: str) -> TrunkSimilarity:
    """Return `trunks` extended by the comparisons on positions of board `part`."""
    baselines = results.runs_where(part, way=SCRATCH)
    reader = _Reader(parse_game(baselines[0].planned.settings.game))
    trained = {
        (run.planned.part, run.factors["seed"]): reader.layers(run)
        for run in results.runs_where(way=SCRATCH)
    }
    untrained = {(UNTRAINED, run.factors["seed"]): reader.layers(run, 0) for run in baselines}
    fine_tuned, scratch = dict(trunks.fine_tuned), dict(trunks.scratch)
    for pair in (pair for pair in fine_tuned if pair.target == part):
        sources = {
            seed: layers for (board, seed), layers in trained.items() if board == pair.source
        }
        tuned = runs_by_seed(results, pair, FINE_TUNED)
        fine_tuned[pair] = {
            seed: _cka_by_layer(layers, reader.layers(tuned[seed]))
            for seed, layers in sources.items()
            if seed in tuned
        }
        scratch[pair] = {
            seed: _cka_by_layer(layers, trained[part, seed])
            for seed, layers in sources.items()
            if (part, seed) in trained
        }
    boards = {**trunks.between_boards, **_between_boards(part, {**trained, **untrained})}
    return TrunkSimilarity(list(next(iter(trained.values()))), fine_tuned, scratch, boards)


def _between_boards(
    part: str, networks: Mapping[tuple[str, Level], GramByLayer]
) -> dict[tuple[str, str], list[Sequence[float]]]:
    """Return the CKA between the runs of a board and all unrelated runs.

    `networks` maps the board and seed of each run to its layers.
    """
    cka: dict[tuple[str, str], list[Sequence[float]]] = {}
    for ((board, seed), layers), ((board_2, seed_2), layers_2) in permutations(networks.items(), 2):
        is_related = board_2 in (part, UNTRAINED) and seed == seed_2
        is_duplicate = board_2 == part and str(seed_2) < str(seed)
        if board == part and not is_related and not is_duplicate:
            cka.setdefault((part, board_2), []).append(_cka_by_layer(layers, layers_2))
    return cka


def _cka_by_layer(one: GramByLayer, other: GramByLayer) -> list[float]:
    """Return the CKA of each layer; all trunks in a study have the same layers."""
    return [one[name].cka(other[name]) for name in one]


class _Reader:
    """Reader of a network's activations on random positions of a board."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._states = random_positions(game, POSITIONS)

    def layers(self, run: TrainedRun, iteration: int | None = None) -> GramByLayer:
        """Return the layers of a run's network, by default of its best network."""
        folder = RunFolder.open(run.path)
        stored = read_network_file(
            folder.weights_path(folder.progress.best if iteration is None else iteration)
        )
        network = build_network(stored_network_settings(stored), parse_game(stored.game), seed=0)
        set_weights(network, stored.weights)
        by_layer = trunk_activations(network, self._game, self._states)
        return {name: GramMatrix(activations) for name, activations in by_layer.items()}


def random_positions(game: Game, count: int) -> NDArray[np.uint64]:
    """Return distinct non-terminal positions, one from each random game, as uint64[N, words].

    N is less than `count` if the random games yield fewer distinct positions.
    """
    random = np.random.default_rng(0)
    positions: dict[bytes, NDArray[np.uint64]] = {}
    for _ in range(_MOST_GAMES):
        if len(positions) == count:
            break
        line = [compiled_rules.start(game)]
        while True:
            action = int(random.choice(np.flatnonzero(compiled_rules.legal(game, line[-1]))))
            state = compiled_rules.apply(game, line[-1], action)
            if compiled_rules.outcome(game, state) != ONGOING:
                break
            line.append(state)
        position = line[int(random.integers(len(line)))]
        positions.setdefault(position.tobytes(), position)
    return np.stack(list(positions.values()))


def similarity_blocks(results: Results, trunks: TrunkSimilarity) -> Iterator[Block]:
    """Yield the figures on the similarity of trunks."""
    if not trunks.between_boards:
        return
    yield Heading("Similarity of trunks")
    yield Paragraph(
        f"Linear CKA of activations on {POSITIONS} positions from random games. It is 1 for layers"
        " that are equal up to an orthogonal map and a factor, and 0 for unrelated layers. The"
        " unbiased estimator of [Song2012] is used because the usual estimator makes any two"
        " networks look similar if they have more activations than there are positions. Both"
        " networks receive the same encoded positions, so even untrained trunks are somewhat"
        " similar. They serve as the reference."
    )
    yield from _pair_maps(trunks)
    yield from _board_maps(results, trunks)


def _pair_maps(trunks: TrunkSimilarity) -> Iterator[Block]:
    rows = [pair for pair in trunks.fine_tuned if trunks.fine_tuned[pair] and trunks.scratch[pair]]
    if not rows:
        return
    maps = {
        title: HeatMap(
            [pair.title for pair in rows],
            trunks.layer_names,
            np.array([np.mean(list(by_pair[pair].values()), axis=0) for pair in rows]),
            np.array([_spread(list(by_pair[pair].values())) for pair in rows]),
        )
        for title, by_pair in (("fine-tuned", trunks.fine_tuned),
                                ("from scratch", trunks.scratch))
    }  # fmt: skip
    yield Picture(
        "cka-fine-tuned",
        draw_heat_maps(maps, "Similarity to the trunk of the source", "boards", "layer",
                  "linear CKA", number_format=".2f"),
        "Left: fine-tuned trunk against the source trunk from which it started. Right: trunk from"
        " scratch on the target against the same source trunk. Both are compared on positions of"
        " the target.",
    )  # fmt: skip


def _board_maps(results: Results, trunks: TrunkSimilarity) -> Iterator[Block]:
    boards = [part for part in results.design.parts if (part, UNTRAINED) in trunks.between_boards]
    others = [*boards, UNTRAINED]
    if len(results.levels("seed")) < 2 or not boards:
        return
    maps = {}
    for number, layer in enumerate(trunks.layer_names):
        values = np.full((len(boards), len(others)), np.nan)
        for row, column in np.ndindex(values.shape):
            one, other = boards[row], others[column]
            cka = [
                *trunks.between_boards.get((one, other), []),
                *trunks.between_boards.get((other, one), []),
            ]
            if cka:
                values[row, column] = np.mean([by_layer[number] for by_layer in cka])
        maps[layer] = HeatMap(_titles(boards), _titles(others), values)
    yield Picture(
        "cka-boards",
        draw_heat_maps(maps, "Similarity of trunks from scratch", "trained on", "trained on",
                  "linear CKA", columns=1, number_format=".2f"),
        "Mean over all pairs of unrelated runs, on positions of both boards. The diagonal compares"
        " runs on the same board with different seeds. Untrained trunks are compared on positions"
        " of the row's board.",
    )  # fmt: skip


def _titles(parts: Sequence[str]) -> list[str]:
    return [
        part if part == UNTRAINED else "\n".join(board_title(part).rsplit(" ", 1)) for part in parts
    ]


def _spread(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the standard deviation of each layer, or NaN for fewer than two rows."""
    if len(rows) < 2:
        return np.full(len(rows[0]), np.nan)
    return np.asarray(np.std(rows, axis=0, ddof=1))
