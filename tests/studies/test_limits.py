"""Reports begin with what cannot be concluded from them."""

from __future__ import annotations

import pytest

from zerolab.studies.study import SCALES, scale_caveats


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seeds", [1, 3])
def test_every_scale_is_named_with_what_does_not_follow(scale, seeds):
    text = scale_caveats(scale, seeds, "losses")
    assert text.startswith(f"Scale {scale}: ")
    assert "about losses" in text
    if scale != "smoke":
        assert ("up to 3 runs of each setting" if seeds == 3 else "one run of each setting") in text
