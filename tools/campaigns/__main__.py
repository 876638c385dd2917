"""Entry point of ``python tools/campaigns``."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # so that modules import as campaigns.*
sys.path.append(str(Path(__file__).parents[2] / "tests"))  # contains the module `promised`

from campaigns.command import main  # noqa: E402  needs the changed path

if __name__ == "__main__":
    sys.exit(main())
