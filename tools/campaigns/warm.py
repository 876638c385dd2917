"""Process that imports zerolab once and forks for each command, which takes only milliseconds.

Each command must end like an ordinary Python process, through the end of the main program, so that
exit handlers run. Therefore `main` returns only in the child.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import random
import sys
from typing import Any

_LEFT_OUT = ("ray", "web", "onnx", "__main__")
"""Parts of module names to skip, because these start threads or need optional packages."""


def main(requests: int, answers: int) -> int:
    """Handle JSON requests, one per line; in a child, return the exit code of its command."""
    _import_all()
    gc.freeze()
    with os.fdopen(requests) as lines, os.fdopen(answers, "w", buffering=1) as out:
        print(json.dumps({"ready": True}), file=out)
        for line in lines:
            request = json.loads(line)
            child = os.fork()
            if child == 0:
                _become(request)
                break
            print(json.dumps({"process": child}), file=out)
            status = os.waitpid(child, 0)[1]
            print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=out)
        else:
            os._exit(0)
    from zerolab.cli.main import main as zerolab  # noqa: PLC0415  already imported

    return zerolab()


def _import_all() -> None:
    import zerolab  # noqa: PLC0415  slow import

    for module in pkgutil.walk_packages(zerolab.__path__, "zerolab."):
        if not any(part in module.name for part in _LEFT_OUT):
            importlib.import_module(module.name)


def _become(request: dict[str, Any]) -> None:
    """Turn this fork into the process of a command."""
    os.setsid()
    os.chdir(request["folder"])
    for number, (path, flags) in enumerate(
        (
            (request["input"], os.O_RDONLY),
            (request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        )
    ):
        descriptor = os.open(path, flags)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["zerolab", *request["words"]]
    random.seed()
    from campaigns.inject import install_from_environment  # noqa: PLC0415  needed only in children

    install_from_environment()
