"""What cannot be concluded from a study at a scale: the words that head its report."""

from __future__ import annotations

TIMES = (
    "Times are those of runs that went on beside others of the study where it had several workers,"
    " on the machine that the last line names: compare their ratios, not the times themselves with"
    " published ones."
)
"""For studies that report times, after `limits`."""

_ONE_SYMMETRY = ", and each example learned under one symmetry instead of all"

_RUNS = {
    "mini": (
        "networks of a few thousand weights, iterations, games and simulations cut to a fraction of"
        " the published ones"
    ),
    "small": (
        "networks of some fifty thousand weights, iterations and simulations cut to a fraction of"
        " the published ones"
    ),
    "paper": "the published sizes of networks and runs",
}


def limits(scale: str, seeds: int, what: str, *, symmetries: bool = True) -> str:
    """Return what a reader must know before anything else.

    `seeds` is the largest number of runs per setting; `what` the subject of the study, such as
    ``which loss function is best``, to follow "nothing follows about" and the like; `symmetries`
    whether the published runs learn each example under all symmetries of the board.
    """
    if scale == "smoke":
        return (
            f"Scale smoke: a few games by nearly untrained networks, which show that everything"
            f" works. Nothing follows about {what}: whatever numbers say below is chance."
        )
    one = _ONE_SYMMETRY if symmetries and scale != "paper" else ""
    made_of = f"Scale {scale}: {_RUNS[scale]}{one}; {_seeds(seeds)}."
    if scale == "paper":
        return f"{made_of} Nothing follows about {what} with other games, networks or budgets."
    return (
        f"{made_of} The results say what such small runs do; for the published size nothing follows"
        f" about {what}. Effects smaller than the difference between two runs of one setting cannot"
        " be seen: undecided does not mean equal."
    )


def _seeds(seeds: int) -> str:
    if seeds > 1:
        return f"up to {seeds} runs of each setting, which differ in their seed"
    return (
        "one run of each setting, so that settings cannot be told from chance where nothing else"
        " averages over it"
    )
