"""``python tools/campaigns`` is the command of the package beside it."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # else the package's modules would be top-level ones
sys.path.append(str(Path(__file__).parents[2] / "tests"))  # where `promised` is

from campaigns.command import main  # noqa: E402  it is found there

if __name__ == "__main__":
    sys.exit(main())
