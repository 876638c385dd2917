"""Where things are that pages show."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zerolab.core.errors import UserError, quoted
from zerolab.web.errors import ForbiddenError


@dataclass(frozen=True)
class Folders:
    """Where things are that pages show; nothing else on disk is read for them."""

    runs: tuple[Path, ...] = (Path("runs"),)
    """Folders of runs, or runs; new runs and agents' files go to the first one."""
    studies: Path = Path("studies")
    tournaments: Path = Path("tournaments")

    @property
    def agents(self) -> Path:
        """Where agents' files are kept that pages have brought."""
        return self.runs[0] / "agents"

    @property
    def server(self) -> Path:
        """Where the server keeps what outlives it: its token, and the processes that train."""
        return self.runs[0] / ".server"

    def confined_network(self, name: str) -> str:
        """Return what names a run, a network RUN@N or a file, within the folders of runs.

        Raises ForbiddenError for a path that leads elsewhere, with or without what follows the @.
        """
        for path in {name, name.rpartition("@")[0] or name}:
            self.confined(Path(path))
        return name

    def confined(self, path: Path, among: Sequence[Path] | None = None) -> Path:
        """Return a path within the folders of runs, or within others.

        Raises ForbiddenError for one that leads elsewhere, by symbolic links, too.
        """
        folders = self.runs if among is None else among
        try:
            resolved = path.resolve()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                resolved.stat()  # raises for names that no file can have, such as very long ones
            is_inside = any(resolved.is_relative_to(each.resolve()) for each in folders)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"{quoted(path)} is not a path") from error
        if not is_inside:
            places = ", ".join(each.as_posix() for each in folders)
            raise ForbiddenError(f"{quoted(path)} is not served: expected something in {places}")
        return path


def modified(path: Path) -> float:
    """Return when a file or folder was changed last, as a time stamp; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
