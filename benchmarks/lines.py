"""A file of JSON lines that is written as one measures, so that an interrupted benchmark can go on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """Its first line says what the others were made with: those of two such must not be mixed.

    Args:
        path: The file; its folder is made.
        made_with: Settings and machine, as JSON gives them back.
        resume: Whether to go on with the file as it is; else it is put aside.

    Attributes:
        kept: The lines that were there, without one that was not written to its end.

    Raises:
        ValueError: If the file was made with something else.
    """

    def __init__(self, path: Path, made_with: Mapping[str, Any], *, resume: bool) -> None:
        self._path = path
        self._made_with = dict(made_with)
        self.kept: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and resume:
            self.kept = self._read()
        elif path.exists():
            path.replace(path.with_suffix(".previous.jsonl"))
        self.rewrite(self.kept)

    def _read(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._path.read_text("utf-8").splitlines() if line.endswith("}")]
        if not lines or lines[0] != self._made_with:
            raise ValueError(f"{self._path} was made with other settings or on another machine: leave out --resume")
        return lines[1:]

    def rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Replaces all lines but the first."""
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in [self._made_with, *lines]), "utf-8")

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Appends lines."""
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
