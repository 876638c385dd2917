"""A process that has imported zerolab and forks for each command: milliseconds, not seconds.

Each command ends as any process of Python does, through the end of the main program: what is
registered to run at exit runs. So `main` returns in the child, and only there.
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
"""Modules that start threads, or that only some commands import for optional packages."""


def main(requests: int, answers: int) -> int:
    """Serve lines of JSON until they end; return, in a child, the exit code of its command."""
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
    from zerolab.cli.main import main as zerolab  # noqa: PLC0415  imported by now

    return zerolab()


def _import_all() -> None:
    import zerolab  # noqa: PLC0415  takes long

    for module in pkgutil.walk_packages(zerolab.__path__, "zerolab."):
        if not any(part in module.name for part in _LEFT_OUT):
            importlib.import_module(module.name)


def _become(request: dict[str, Any]) -> None:
    """Let this fork be the process of a command."""
    os.setsid()
    os.chdir(request["folder"])
    for number, (path, flags) in enumerate(
        (
            (request["input"], os.O_RDONLY),
            (request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        )
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["zerolab", *request["words"]]
    random.seed()
    from campaigns.inject import install_from_environment  # noqa: PLC0415  only a child needs it

    install_from_environment()
