"""A tic-tac-toe engine, independent of zerolab, that misbehaves in a chosen way.

The fault occurs once C3 has been played. If the second argument is "always", it occurs at every
move, and if it is "early", at every move of the first three processes. Every start appends a line
to the file named by the third argument.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

FAULT, WHEN, LOG = sys.argv[1:4]
CELLS = [column + row for row in "123" for column in "ABC"]


def misbehave():
    """Misbehave, and return the response if the fault is a response."""
    if FAULT == "hang":
        time.sleep(600)
    elif FAULT == "crash":
        sys.exit("out of luck")
    elif FAULT == "flood":
        while True:
            sys.stdout.write("= " + "x" * 1000)
    return {
        "occupied": "= C3",
        "outside": "= J99",
        "nonsense": "= \x01\xff what?",
        "resign": "= resign",
        "garbage": "Segmentation fault, just joking",
        "refuse": "? not today",
        "windows": "= B1\r\n\r",
        "twice": "= B1\n\n= B1",
    }[FAULT]


def serve():
    is_faulty = WHEN == "always" or (WHEN == "early" and starts <= 3)
    board = []
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "boardsize" and arguments != ["3"]:
            reply = "? unacceptable size"
        elif command in ("boardsize", "clear_board"):
            board, reply = [], "="
        elif command == "list_commands" and FAULT == "unlisted":
            reply = "= list_games"
        elif command == "list_games":
            reply = "? not today"
        elif command == "play":
            board.append(arguments[1])
            reply = "="
        elif command == "genmove":
            if "C3" in board or is_faulty:
                reply = misbehave()
            else:
                board.append(next(cell for cell in CELLS if cell not in board))
                reply = f"= {board[-1]}"
        else:
            reply = "= " + command
        if FAULT == "chatty":
            sys.stderr.write("thinking...\n" * 20_000)
        sys.stdout.write(reply + "\n\n")
        sys.stdout.flush()


with Path(LOG).open("a") as log:
    if FAULT == "family":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        log.write(f"{child.pid}\n")
    else:
        log.write("started\n")
starts = Path(LOG).read_text().count("started")
serve()
