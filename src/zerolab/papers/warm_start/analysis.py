"""Report on warm starts: Elo by variant, tests against the baseline, and length of the start."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zerolab.papers.elo import (
    GAME_TITLES,
    elo_sample,
    elo_table,
    mean_elo_gain,
    missing_for_unfinished_tournaments,
    pair_by_seed,
    random_player_sample,
    ratings_sample,
)
from zerolab.papers.solved_accuracy import accuracy_section
from zerolab.papers.warm_start.findings import VARIANT_TITLES, warm_start_statistics
from zerolab.papers.warm_start.study import (
    ADAPTIVE_VARIANT,
    BASELINE,
    BY_ITERATION_TOURNAMENT,
    GAMES,
    VARIANTS,
    WARM_START_LENGTH_PREFIX,
    WARM_START_LENGTH_TOURNAMENT,
    WRORA,
)
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import RunSample
from zerolab.report.interval_plots import IntervalRow, draw_grouped_runs, draw_intervals
from zerolab.report.table import P_VALUE_FORMAT, Cell, Column, Table
from zerolab.studies.claims import holm_adjust, sign_test, signed_rank_test
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import (
    POOLED_VARIANCE_NOTE,
    pooled_intervals,
    run_sample,
    with_pooled_intervals,
)
from zerolab.studies.study import scale_caveats
from zerolab.training.records import SelfPlayRecord
from zerolab.training.reporting import best_network_after

_ADAPTIVE_END = "adaptive"


def warm_start_report(results: Results) -> Document:
    """Return the report on all finished runs and tournaments."""
    subject = (
        "the gain from a warm start in the hundred iterations of the paper, because a warm start"
        " covers a larger share of short runs"
    )
    blocks: list[Block] = [
        *verdict_section(results, results.judge(warm_start_statistics)),
        *_strength(results),
        *_tests(results),
        *accuracy_section(results, GAME_TITLES, "variant", VARIANT_TITLES),
        *_iterations(results),
        *_switches(results),
    ]
    return Document(
        "Warm starts of self-play on three games",
        scale_caveats(results.scale, len(results.planned_levels("seed")), subject),
        blocks,
        provenance(results),
    )


def _elos(results: Results, game: str, variant: str, tournament: str = "") -> RunSample:
    key = "-".join(filter(None, (game, tournament)))
    return elo_sample(results.tournaments[key], results.runs_where(game, variant=variant))


def _strength(results: Results) -> Iterator[Block]:
    finished = [game for game in GAMES if game in results.tournaments]
    groups = with_pooled_intervals({
        GAME_TITLES[game]: {
            VARIANT_TITLES[variant]: _elos(results, game, variant) for variant in VARIANTS
        }
        for game in finished
    })  # fmt: skip
    for game in finished:
        random_player = random_player_sample(results.tournaments[game])
        groups[GAME_TITLES[game]]["Random"] = random_player
    yield Heading("Elo by variant")
    if not groups:
        yield Paragraph("No tournament is finished.")
        return
    yield Picture(
        "elo",
        draw_grouped_runs(groups, "Elo of final networks by warm start", "tournament Elo"),
        "Round-robin tournaments between Random and the final networks of each game, with plain"
        " search. Elo is relative to the mean of all players of a tournament. Compare Figs. 5.1"
        f" (Gobang and Connect Four) and 5.2 (Othello) of [Wang2020b]. {POOLED_VARIANCE_NOTE}"
        " Random, which is not trained, has a separate variance.",
    )
    yield elo_table("elo-by-variant", "Tournament Elo by variant", groups, "game", "variant")


def _paired_gains(results: Results, game: str, variant: str, name: str) -> RunSample:
    """Return the Elo of a variant's runs relative to baseline runs with the same seed.

    The ratings are from the game's tournament called `name`, and their errors are treated as
    independent.
    """
    tournament = results.tournaments["-".join(filter(None, (game, name)))]
    warm, base = (
        {run.seed: tournament.final_rating(run) for run in results.runs_where(game, variant=level)}
        for level in (variant, BASELINE)
    )
    pairs = pair_by_seed(warm, base)
    return run_sample(
        [one.elo - other.elo for one, other in pairs],
        [math.hypot(one.standard_error, other.standard_error) for one, other in pairs],
    )


def _tests(results: Results) -> Iterator[Block]:
    rows: list[list[Cell]] = []
    signs: list[float] = []
    ranks: list[float] = []
    lines: dict[str, IntervalRow] = {}
    comparisons = [(variant, "") for variant in VARIANTS[1:]] + [
        (ADAPTIVE_VARIANT, WARM_START_LENGTH_TOURNAMENT)
    ]
    for game in GAMES:
        of_game: dict[str, IntervalRow] = {}
        for variant, name in comparisons:
            if missing_for_unfinished_tournaments(results, ["-".join(filter(None, (game, name)))]):
                continue
            gains = _paired_gains(results, game, variant, name)
            if gains.mean is None:
                continue
            line = IntervalRow(gains.mean, gains.values, gains.standard_errors)
            rows.append([GAME_TITLES[game], VARIANT_TITLES[variant], line.estimate])
            signs.append(sign_test(line.run_values))
            ranks.append(signed_rank_test(line.run_values))
            of_game[f"{GAME_TITLES[game]}, {VARIANT_TITLES[variant]}"] = line
        pooled = pooled_intervals([line.run_values for line in of_game.values()])
        lines |= {
            title: line._replace(estimate=interval)
            for (title, line), interval in zip(of_game.items(), pooled, strict=True)
        }
    if not rows:
        return
    yield Heading("Gain over the baseline")
    yield Picture(
        "gain",
        draw_intervals(lines, "Elo gained by a warm start", "Elo relative to the baseline with the"
                       " same seed", threshold=0.0, number_format="+.0f"),
        "Each dot is a pair of runs with the same seed. Its bar combines the errors of both"
        " ratings, assuming independence. The adaptive variant is compared in the tournaments"
        " between warm starts of different lengths. Intervals pool the variance of the differences"
        " within a game and allow for their correlation; those in the table do not pool.",
    )  # fmt: skip
    columns: list[str | Column] = [
        "game", "variant", Column("gain", "+.0f"), Column("p of the sign test", P_VALUE_FORMAT),
        Column("p of the signed-rank test", P_VALUE_FORMAT),
        Column("sign test, adjusted", P_VALUE_FORMAT),
        Column("signed-rank test, adjusted", P_VALUE_FORMAT),
    ]  # fmt: skip
    tests = zip(signs, ranks, holm_adjust(signs), holm_adjust(ranks), strict=True)
    rows = [[*row, *p_values] for row, p_values in zip(rows, tests, strict=True)]
    seeds = len(results.planned_levels("seed"))
    yield Paragraph(
        "Gains are means over pairs of runs with the same seed, which play one tournament. The"
        " p-values are two-sided [Wilcoxon1945], and the adjusted columns correct for the number of"
        f" rows [Holm1979]. With {seeds} seeds, no unadjusted p-value can be lower than"
        f" {2 ** (1 - seeds):.3g}, however large the gain."
    )
    yield Table("gain-tests", "Elo gain over the baseline, with significance tests", columns, rows)


def _iterations(results: Results) -> Iterator[Block]:
    """Yield the gain of WRoRa during training."""
    groups: dict[str, dict[str, RunSample]] = {}
    rows: list[list[Cell]] = []
    for game in GAMES:
        tournament = results.tournaments.get(f"{game}-{BY_ITERATION_TOURNAMENT}")
        if tournament is None:
            continue
        for iteration in sorted(set(tournament.iteration_by_player.values())):
            base, warm = (
                {
                    run.seed: tournament.rating_after(run, iteration)
                    for run in results.runs_where(game, variant=variant)
                }
                for variant in (BASELINE, WRORA)
            )
            pairs = pair_by_seed(warm, base)
            if not pairs:
                continue
            groups[f"{GAME_TITLES[game]}, {iteration}"] = {
                VARIANT_TITLES[BASELINE]: ratings_sample(list(base.values())),
                VARIANT_TITLES[WRORA]: ratings_sample(list(warm.values())),
            }
            rows.append([GAME_TITLES[game], iteration, mean_elo_gain(pairs).interval])
    if not groups:
        return
    yield Heading("Gain during training")
    yield Picture(
        BY_ITERATION_TOURNAMENT,
        draw_grouped_runs(groups, "Elo of the baseline and WRoRa by iteration", "tournament Elo"),
        "Best networks after the iterations on the axis, in one tournament per game and seed."
        f" {_repeated_networks(results)}",
    )
    columns: list[str | Column] = ["game", "iteration", Column("gain of WRoRa", "+.0f")]
    yield Table("gain-by-iteration", "Elo gain of WRoRa over the baseline", columns, rows)


def _repeated_networks(results: Results) -> str:
    """Return a note about players that are another player's network under a different name."""
    players, networks = 0, set()
    for game in GAMES:
        tournament = results.tournaments.get(f"{game}-{BY_ITERATION_TOURNAMENT}")
        if tournament is None:
            continue
        for run in results.runs_where(game):
            stages = [
                after for name, after in tournament.iteration_by_player.items()
                if tournament.run_by_player[name].key == run.planned.key
            ]  # fmt: skip
            players += len(stages)
            networks |= {_network_after(run, after) for after in stages}
    return (
        f"{players - len(networks)} of the {players} players repeat a network under another name,"
        " because no candidate was accepted in between. They add no evidence."
    )


def _network_after(run: TrainedRun, iteration: int) -> tuple[str, int, int]:
    """Return an identifier of the best network after an iteration.

    The untrained networks for a game and seed are identical with and without a warm start.
    """
    network = best_network_after(run.records, iteration)
    if network:
        return run.planned.key, run.planned.settings.seed, network
    return run.planned.part, run.planned.settings.seed, 0


def _switches(results: Results) -> Iterator[Block]:
    """Yield the gain of WRoRa by I'.

    Only some seeds have runs with further values of I', and their tournaments have more players.
    So only differences between runs with the same seed can be compared.
    """
    groups: dict[str, dict[str, RunSample]] = {}
    for game in GAMES:
        if f"{game}-{WARM_START_LENGTH_TOURNAMENT}" not in results.tournaments:
            continue
        levels = {_default_switch(results): WRORA} | {
            int(str(level).removeprefix(WARM_START_LENGTH_PREFIX)): str(level)
            for level in results.planned_levels("variant", game)
            if str(level).startswith(WARM_START_LENGTH_PREFIX)
        }
        ends = {f"I' = {switch}": level for switch, level in sorted(levels.items())}
        for end, level in (ends | {_ADAPTIVE_END: ADAPTIVE_VARIANT}).items():
            gains = _paired_gains(results, game, level, WARM_START_LENGTH_TOURNAMENT)
            groups.setdefault(end, {})[GAME_TITLES[game]] = gains
    if not groups:
        return
    yield Heading("Length of the warm start")
    yield Picture(
        "switch",
        draw_grouped_runs(
            groups, "Elo gained by last iteration of the warm start",
            "Elo relative to the baseline with the same seed", baseline=0.0,
        ),
        "WRoRa in iterations 1 to I'. Each dot is a pair of runs with the same seed, which play one"
        " tournament. The adaptive variant ends the warm start when plain search wins a match. Its"
        " weights fall as with the default I' and then stay at 1 / I'.",
    )  # fmt: skip
    columns: list[str | Column] = ["I'", "game", "pairs", Column("gain", "+.0f")]
    rows: list[list[Cell]] = [
        [end, game, len(gains.values), gains.mean]
        for end, by_game in groups.items()
        for game, gains in by_game.items()
    ]
    yield Table("switch-elo", "Elo gain by last iteration of the warm start", columns, rows)
    yield _adaptive_ends(results)


def _default_switch(results: Results) -> int:
    run = next(run for run in results.design.runs if run.factors["variant"] == WRORA)
    return int(run.settings.warm_start.ramp.iterations)


def _adaptive_ends(results: Results) -> Table:
    """Return a table of the length of each adaptive warm start."""
    rows = [
        [
            GAME_TITLES[run.planned.part], run.planned.settings.seed,
            sum((record.warm_start_weight or 0) > 0 for record in run.records_of(SelfPlayRecord)),
            run.planned.settings.iterations,
        ]
        for run in results.runs_where(variant=ADAPTIVE_VARIANT)
    ]  # fmt: skip
    columns = ["game", "seed", "iterations with a warm start", "iterations"]
    return Table("adaptive", "Length of adaptive warm starts", columns, rows)
