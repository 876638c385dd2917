"""Train a network from scratch on the replay window of a finished run, and measure it.

All networks learn from the same examples, so differences in accuracy are due to the network, to the
learning settings, to the policy targets or to the seed. The learning rate follows a cosine without
a warm-up: a large value head can saturate at a high rate, which its loss shows. Accuracy is that of
`zerolab evaluate`, for the network alone and with the run's search.

Usage: python tools/relearn.py RUN POSITIONS --set network.head_filters=32 --seed 1
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch

from zerolab.agents.agent import Agent, NetworkOptions, parse_search_options
from zerolab.agents.run_agents import StoredNetwork, network_agent
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.nested_tables import assign, parse_assignments
from zerolab.evaluation.accuracy import agent_accuracy_reports
from zerolab.evaluation.positions import read_positions
from zerolab.networks.catalogue import build_network
from zerolab.replay.window import Window
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import require_effects, saved_settings
from zerolab.training.learner import Learner
from zerolab.training.optimization import CompletedShares
from zerolab.training.train_settings import TrainSettings
from zerolab.training.window_facts import states_and_facts

_WHOLE_RUN = CompletedShares(0.0, 1.0)
_FIXED = (["window"], ["merging"], ["schedule"], ["epochs"], ["replay_ratio"])
_TARGETS = ("policy_target", "late_policy_target", "policy_target_temperature")


def settings_for_relearning(
    run: RunFolder, assignments: Sequence[str], passes: int
) -> TrainSettings:
    """Return the run's settings, with its final network's architecture and other changes.

    Raises UserError for changes that are invalid or have no effect, and for runs whose window
    depends on more than the examples.
    """
    settings = saved_settings(run)
    if not run.latest_example_iteration:
        raise UserError(
            f"{run.path} has no examples: expected a run that has learnt from self-play"
        )
    heads = {head.name for head in settings.network.heads}
    if settings.published_bugs or settings.learn.frozen != "none" or "features" in heads:
        raise UserError(
            f"{run.path} has published_bugs, learn.frozen or the features head: expected a run"
            " without them"
        )
    data = settings.model_dump(mode="json")
    data["network"] = settings.network_settings_at(run.latest_example_iteration).model_dump(
        mode="json"
    )
    data["growth"] = {"name": "none"}
    data["learn"] |= {
        "replay_ratio": None,
        "epochs": passes,
        "schedule": {"name": "cosine", "end": 0.02},
    }
    for path, value in parse_assignments(assignments):
        is_target = path[:1] == ["selfplay"] and path[1:] in ([name] for name in _TARGETS)
        is_allowed = path[0] in ("network", "learn") and path[1:2] not in ([], *_FIXED)
        if not is_target and not is_allowed:
            raise UserError(
                f"{'.'.join(path)}: expected a single setting of network or learn, such as"
                " network.blocks, but not window, merging, schedule, epochs or replay_ratio; or"
                f" selfplay.{' or selfplay.'.join(_TARGETS)}"
            )
        assign(data, path, value)
    changed = validate(TrainSettings, data)
    require_effects(changed, assignments)
    return changed


def final_window(run: RunFolder, settings: TrainSettings, learner: Learner) -> Window:
    """Return the replay window at the end of the run."""
    learn, discount = settings.learn, settings.search.discount
    has_sampling_weights = learn.surprise_weight > 0
    window = Window(
        parse_game(settings.game),
        learn.window,
        learn.merging,
        has_sampling_weights=has_sampling_weights,
    )
    for iteration in range(1, run.latest_example_iteration + 1):
        examples = run.load_examples(iteration)
        columns = learner.target_vector_columns
        window.add(*states_and_facts(examples, discount, columns, None, learn.surprise_weight))
    return window


def agent_of_learner(learner: Learner, settings: TrainSettings, options: NetworkOptions) -> Agent:
    """Return the agent that plays with the learner's network."""
    weights, search = learner.weight_arrays(), settings.search
    game, network = parse_game(settings.game), settings.network
    stored = StoredNetwork("relearnt", game, network, search, "relearnt", lambda: weights)
    return network_agent(stored, options)


def relearn(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and measure a network; return the results, with processor time in seconds."""
    run = RunFolder.open(arguments.run)
    settings = settings_for_relearning(run, arguments.set, arguments.passes)
    game, text = parse_game(settings.game), f"simulations={arguments.simulations}"
    options = parse_search_options(NetworkOptions, text, settings.search)
    positions, _ = read_positions(arguments.positions, game)
    network = build_network(settings.network, game, arguments.seed)
    learner = Learner(network, settings.learn, settings.target_options, torch.device("cpu"))
    window = final_window(run, settings, learner)
    start = process_time()
    result = learner.learn(window, arguments.seed, 1, iterations=1, completed_shares=_WHOLE_RUN)
    seconds = process_time() - start
    agent = agent_of_learner(learner, settings, options)
    accuracies = {
        report.name: {
            name: getattr(report.all_positions, name).interval for name in ("strong", "weak")
        }
        for report in agent_accuracy_reports(agent, positions, seed=0)[:-1]
    }
    return {
        "changes": arguments.set,
        "seed": arguments.seed,
        "window": len(window),
        "examples_seen": result.examples_seen,
        "parameters": learner.parameter_count,
        "processor_seconds": round(seconds, 1),
        "losses": result.last_epoch_losses,
        "accuracy": accuracies,
    }


def main() -> None:
    """Print the results as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a run with self-play")
    parser.add_argument("positions", type=Path, help="file written by zerolab dataset")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="setting of network, learn or policy targets to change; can be repeated",
    )  # fmt: skip
    parser.add_argument("--passes", type=int, default=1, help="passes over the window, at least 1")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches")
    parser.add_argument(
        "--simulations", type=int, default=343, help="simulations per move; 0 for the network only"
    )
    try:
        print(json.dumps(relearn(parser.parse_args())))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
