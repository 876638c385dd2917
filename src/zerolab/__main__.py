"""``python -m zerolab`` runs the ``zerolab`` command."""

import sys

from zerolab.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
