"""``python -m zerolab`` is the command ``zerolab``."""

import sys

from zerolab.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
