"""Two-level designs: published rows and promised properties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from zerolab.papers.hyperparameters.study import fold_over, plackett_burman


@pytest.mark.parametrize(("runs", "first"), [(12, "++-+++---+-"), (24, "+++++-+-++--++--+-+----")])
def test_first_row_is_published(runs, first):
    """[Plackett1946] lists these rows; rotations give the others except the last."""
    design = plackett_burman(runs)
    assert design.shape == (runs, runs - 1)
    assert "".join("+" if level > 0 else "-" for level in design[0]) == first
    assert (design[-1] == -1).all()


def test_columns_are_balanced_and_orthogonal():
    design = plackett_burman(24)
    assert (design.sum(axis=0) == 0).all()
    assert (design.T @ design == 24 * np.eye(23)).all()


def test_folding_over_frees_main_effects_of_interactions():
    """Without the mirror image, products of two columns correlate with other columns."""
    design = plackett_burman(24)[:, :12]
    pairs = list(combinations(range(12), 2))
    for runs, is_free in ((design, False), (fold_over(design), True)):
        products = np.stack([runs[:, i] * runs[:, j] for i, j in pairs])
        assert (products @ runs == 0).all() == is_free
    assert len(fold_over(design)) == 48
    assert len(np.unique(fold_over(design), axis=0)) == 48


@pytest.mark.parametrize("runs", [2, 16, 22, 28])
def test_other_numbers_of_runs_are_refused(runs):
    with pytest.raises(ValueError, match=f"{runs} runs"):
        plackett_burman(runs)
