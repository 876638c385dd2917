"""The report on efficiency on Connect Four: ceilings, training beside one another, claims."""

from __future__ import annotations

from zerolab.studies.analyses.efficiency import diverse, easy, leagues, supervised, training
from zerolab.studies.claims import judge
from zerolab.studies.limits import limits
from zerolab.studies.report.document import Block, ClaimTable, Document, Heading
from zerolab.studies.results import Results, provenance


def document(results: Results) -> Document:
    """Return the report on whatever is finished."""
    seeds = len(results.levels("seed"))
    what = (
        "which way to train is the cheapest for networks of another size or for accuracies that"
        " these runs do not reach"
    )
    runs, diversities = training.measured(results), diverse.measured(results)
    easy_accuracies = easy.measured(results)
    statistics = {
        **supervised.found(results),
        **training.found(results, runs),
        **easy.found(results, easy_accuracies),
        **diverse.found(results, diversities),
        **leagues.found(results, diversities),
    }
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(statistics)),
        *supervised.blocks(results),
        *training.blocks(results, runs),
        *easy.blocks(results, easy_accuracies),
        *leagues.blocks(results),
        *diverse.blocks(diversities),
    ]
    title = "Efficiency on Connect Four"
    return Document(
        title, limits(results.scale, seeds, what, symmetries=False), blocks, provenance(results)
    )
