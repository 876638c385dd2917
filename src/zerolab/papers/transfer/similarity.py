"""Layer-by-layer similarity of trunks with linear CKA [Kornblith2019]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import default_device
from zerolab.networks.network import Network, ResidualBlock, folded_copy, set_weights
from zerolab.papers.transfer.measures import (
    BoardPair,
    ValueBySeed,
    board_title,
    planned_board_pairs,
    runs_by_seed,
)
from zerolab.papers.transfer.study import FINE_TUNED, SCRATCH
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.xy_plots import HeatMap, draw_heat_maps
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING, Game
from zerolab.store.arrays import read_network_file
from zerolab.studies.design import FactorLevel
from zerolab.studies.results import Results
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.inputs import stored_network_settings

_BATCH = 1024
_MIN_POSITIONS = 4
"""Smallest number of positions for the unbiased estimator."""


def trunk_activations(
    network: Network, game: Game, states: NDArray[np.uint64], device: torch.device | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the activations of each layer of a residual trunk for uint64[N, words] states.

    The activations are float32[N, filters * rows * columns], taken after the ReLU if a layer has
    one. The layers are named ``stem``, ``adapter`` (if there is one), ``block 1``, ``block 2`` and
    so on. The board can differ in size from the training board. Raises UserError if the trunk has
    no residual blocks.
    """
    if not isinstance(network.trunk, nn.Sequential):
        raise UserError(
            'the network has no residual blocks to compare: expected a network such as "resnet"'
        )
    device = device or default_device()
    folded = folded_copy(network).to(device)
    batches: dict[str, list[NDArray[np.float32]]] = {}
    for begin in range(0, len(states), _BATCH):
        planes = torch.from_numpy(compiled_rules.encode_batch(game, states[begin : begin + _BATCH]))
        with torch.inference_mode():
            activations = folded.with_extra_planes(planes.to(device))
            for name, layers in _named_layers(folded.trunk).items():
                activations = layers(activations)
                batches.setdefault(name, []).append(activations.flatten(1).cpu().numpy())
    return {name: np.concatenate(arrays) for name, arrays in batches.items()}


def _named_layers(trunk: nn.Module) -> dict[str, nn.Sequential]:
    """Group the modules of a residual trunk into layers."""
    layers: dict[str, nn.Sequential] = {}
    current: list[nn.Module] = []
    blocks = 0
    for module in trunk.children():
        current.append(module)
        if isinstance(module, ResidualBlock):
            blocks += 1
            layers[f"block {blocks}"] = nn.Sequential(*current)
        elif isinstance(module, nn.ReLU):
            layers["stem"] = nn.Sequential(*current)
        elif isinstance(module, nn.Conv2d):
            layers["adapter"] = nn.Sequential(*current)
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
        """Compute inner products of [N, features] activations; raise ValueError if N < 4."""
        features = np.asarray(activations, np.float64)
        if len(features) < _MIN_POSITIONS:
            raise ValueError(f"{len(features)} positions: expected at least {_MIN_POSITIONS}")
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

        Returns NaN if either set of activations is the same for all positions. Raises ValueError if
        the numbers of positions differ.
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


POSITION_COUNT = 256
"""Number of distinct positions from random games on which trunks are compared."""
UNTRAINED = "untrained"
"""Label of networks that have not been trained, used in place of a board."""
_MAX_GAMES = 20 * POSITION_COUNT

GramByLayer = Mapping[str, GramMatrix]
"""Gram matrices of a network's activations, by layer."""


class TrunkSimilarity(NamedTuple):
    """Linear CKA between the trunks of finished runs: one number per layer."""

    layer_names: Sequence[str]
    fine_tuned_cka: Mapping[BoardPair, Mapping[FactorLevel, Sequence[float]]]
    """CKA of source and fine-tuned trunk on positions of the target, by pair and seed."""
    scratch_cka: Mapping[BoardPair, Mapping[FactorLevel, Sequence[float]]]
    """CKA of source trunk and trunk from scratch on positions of the target, by pair and seed."""
    between_boards_cka: Mapping[tuple[str, str], Sequence[Sequence[float]]]
    """CKA of runs from scratch on two boards with the same seed, on positions of the first board.

    The second board can be `UNTRAINED`."""

    def first_layer_cka_excess(self, pair: BoardPair) -> ValueBySeed:
        """Return how much better fine-tuning preserves the first layer than the last, by seed.

        The result is the CKA with the source in the first layer minus the CKA in the last layer for
        the fine-tuned trunk, minus the same difference for the trunk from scratch. First layers are
        similar even between unrelated trunks, because all networks receive the same planes. Seeds
        for which any of the four numbers is unknown are left out.
        """
        differences = {
            seed: (layers[0] - layers[-1])
            - (self.scratch_cka[pair][seed][0] - self.scratch_cka[pair][seed][-1])
            for seed, layers in self.fine_tuned_cka[pair].items()
            if seed in self.scratch_cka[pair]
        }
        return {seed: each for seed, each in differences.items() if math.isfinite(each)}


def compare_trunks(results: Results) -> TrunkSimilarity:
    """Collect the comparisons of the trunks of all finished runs."""
    pairs = planned_board_pairs(results.design)
    measured = {
        kind: {
            pair: {
                run.seed: _numbers(run.measurements[kind])
                for run in runs_by_seed(results, pair, FINE_TUNED).values()
                if kind in run.measurements
            }
            for pair in pairs
        }
        for kind in (SOURCE_CKA, SCRATCH_CKA)
    }
    boards: dict[tuple[str, str], list[Sequence[float]]] = {}
    names: list[str] = []
    for run in results.runs_where(way=SCRATCH):
        names = run.measurements.get("layers", names)
        for other, by_layer in run.measurements.get(BOARD_CKA, {}).items():
            boards.setdefault((run.planned.part, other), []).append(_numbers(by_layer))
    return TrunkSimilarity(names, measured[SOURCE_CKA], measured[SCRATCH_CKA], boards)


SOURCE_CKA, SCRATCH_CKA, BOARD_CKA = "source", "scratch", "boards"
"""Names of measurements: fine-tuned trunk against its source, trunk from scratch against the same
source, and trunk from scratch against those of other boards and of the untrained network."""


def measure_similarity(run: FinishedRun) -> dict[str, Any]:
    """Return the CKA of a run's trunk with related and unrelated trunks of the same seed.

    For a run with a fine-tuned trunk, this trunk and the trunk from scratch on the same board are
    compared with the source. For a run from scratch, the trunk is compared with those from scratch
    on other boards and with its own untrained trunk. The CKA is None until all runs from scratch
    with this seed are finished. Other runs have no measurements.
    """
    method = run.planned.factors["way"]
    if method not in (FINE_TUNED, SCRATCH):
        return {}
    others = {
        other.part: run.other_run(other)
        for other in run.design.runs
        if other.factors["way"] == SCRATCH and other.factors["seed"] == run.planned.factors["seed"]
    }
    if not all(others.values()):
        return {SOURCE_CKA: None}
    reader = _Reader(parse_game(run.planned.settings.game))
    layers = {part: reader.layers(other) for part, other in others.items() if other is not None}
    own = reader.layers(run)
    if method == SCRATCH:
        untrained = reader.layers(run, 0)
        unrelated = {part: each for part, each in layers.items() if part != run.planned.part}
        return {
            "layers": list(own),
            BOARD_CKA: {
                part: _cka_by_layer(own, each)
                for part, each in {**unrelated, UNTRAINED: untrained}.items()
            },
        }
    source = layers[str(run.planned.factors["source"])]
    return {
        SOURCE_CKA: _cka_by_layer(source, own),
        SCRATCH_CKA: _cka_by_layer(source, layers[run.planned.part]),
    }


def _cka_by_layer(one: GramByLayer, other: GramByLayer) -> list[float | None]:
    """Return the CKA of each layer; all trunks in a study have the same layers.

    JSON has no NaN, so None replaces it.
    """
    ckas = [one[name].cka(other[name]) for name in one]
    return [None if math.isnan(each) else each for each in ckas]


def _numbers(stored: Sequence[float | None]) -> list[float]:
    return [math.nan if each is None else each for each in stored]


class _Reader:
    """Reader of a network's activations on random positions of a board."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._states = random_positions(game, POSITION_COUNT)

    def layers(self, run: FinishedRun, iteration: int | None = None) -> GramByLayer:
        """Return the Gram matrix of each layer of a run's network, by default its best network."""
        folder = run.folder
        stored = read_network_file(
            folder.weights_path(folder.progress.best if iteration is None else iteration)
        )
        network = build_network(
            stored_network_settings(stored), parse_game(stored.game_name), seed=0
        )
        set_weights(network, stored.weights)
        by_layer = trunk_activations(network, self._game, self._states)
        return {name: GramMatrix(activations) for name, activations in by_layer.items()}


@cache  # all runs on a board are compared on the same positions
def random_positions(game: Game, count: int) -> NDArray[np.uint64]:
    """Return distinct non-terminal positions, one from each random game, as uint64[N, words].

    N is less than `count` if the random games yield fewer distinct positions.
    """
    random = np.random.default_rng(0)
    positions: dict[bytes, NDArray[np.uint64]] = {}
    for _ in range(_MAX_GAMES):
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
    distinct = np.stack(list(positions.values()))
    distinct.flags.writeable = False  # all callers share this cached array
    return distinct


def similarity_section(results: Results, trunks: TrunkSimilarity) -> Iterator[Block]:
    """Yield the figures on the similarity of trunks."""
    if not trunks.between_boards_cka:
        return
    yield Heading("Similarity of trunks")
    yield Paragraph(
        f"Linear CKA of activations on {POSITION_COUNT} positions from random games. It is 1 for"
        " layers that are equal up to an orthogonal map and a factor, and 0 for unrelated layers."
        " The unbiased estimator of [Song2012] is used because the usual estimator makes any two"
        " networks look similar if they have more activations than there are positions. Both"
        " networks receive the same encoded positions, so even untrained trunks are somewhat"
        " similar, which is why untrained trunks serve as the reference."
    )
    yield from _pair_maps(trunks)
    yield from _board_maps(results, trunks)


def _pair_maps(trunks: TrunkSimilarity) -> Iterator[Block]:
    rows = [
        pair
        for pair in trunks.fine_tuned_cka
        if trunks.fine_tuned_cka[pair] and trunks.scratch_cka[pair]
    ]
    if not rows:
        return
    maps = {
        title: HeatMap(
            [pair.title for pair in rows],
            trunks.layer_names,
            np.array([np.mean(list(by_pair[pair].values()), axis=0) for pair in rows]),
            np.array([_spread(list(by_pair[pair].values())) for pair in rows]),
        )
        for title, by_pair in (("fine-tuned", trunks.fine_tuned_cka),
                                ("from scratch", trunks.scratch_cka))
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
    boards = [
        part for part in results.design.part_names if (part, UNTRAINED) in trunks.between_boards_cka
    ]
    others = [*boards, UNTRAINED]
    if len(results.planned_levels("seed")) < 2 or not boards:
        return
    maps = {}
    for number, layer in enumerate(trunks.layer_names):
        values = np.full((len(boards), len(others)), np.nan)
        for row, column in np.ndindex(values.shape):
            one, other = boards[row], others[column]
            cka = [
                *trunks.between_boards_cka.get((one, other), []),
                *trunks.between_boards_cka.get((other, one), []),
            ]
            if cka:
                values[row, column] = np.mean([by_layer[number] for by_layer in cka])
        maps[layer] = HeatMap(_titles(boards), _titles(others), values)
    yield Picture(
        "cka-boards",
        draw_heat_maps(maps, "Similarity of trunks from scratch", "trained on", "trained on",
                  "linear CKA", columns=1, number_format=".2f"),
        "Mean over seeds, on positions of both boards. Untrained trunks are compared on positions"
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
