"""The tiny run that tests of the server share."""

from __future__ import annotations

GAME = "connect_four:4x4:3"
RUN = "runs/tiny"
