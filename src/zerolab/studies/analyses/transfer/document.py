"""The report on transfer: claims, learning curves, strength in games, and what trunks share."""

from __future__ import annotations

from zerolab.studies.analyses.transfer import claims, learning, similarity, strength
from zerolab.studies.claims import judge
from zerolab.studies.limits import limits
from zerolab.studies.report.document import Block, ClaimTable, Document, Heading
from zerolab.studies.results import Results, provenance


def document(results: Results) -> Document:
    """Return the report on whatever is finished."""
    what = "what networks bring to another game that are larger or have learnt for longer"
    trunks = similarity.measured(results)
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(claims.found(results, trunks))),
        *learning.blocks(results),
        *strength.blocks(results),
        *similarity.blocks(results, trunks),
    ]
    return Document(
        "Transfer between games and sizes of boards",
        limits(results.scale, len(results.levels("seed")), what),
        blocks,
        provenance(results),
    )
