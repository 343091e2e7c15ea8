"""Files of the repository that other programs read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nws_sweep import __version__
from tests.conftest import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def _commands(lines: str) -> Iterator[str]:
    """The tools that ``scripts/check`` runs."""
    for line in lines.splitlines():
        command = line.removeprefix(".venv/bin/").replace(" --check", "")
        if command.split()[0] in {"ruff", "mypy", "lint-imports", "scripts/words"}:
            yield command


def test_the_workflow_runs_the_script_of_the_repository() -> None:
    (job,) = _read(ROOT / ".github/workflows/ci.yml")["jobs"].values()
    *_, last = job["steps"]
    assert last == {"run": ".ci/run"}
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_hooks_before_a_commit_are_those_of_the_check() -> None:
    (local,) = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]]
    assert entries == list(_commands((ROOT / "scripts/check").read_text("utf-8")))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_of_an_issue_asks_a_question_that_must_be_answered(path: Path) -> None:
    fields = _read(path)["body"]
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_citation_has_this_version_and_the_authors_of_the_package() -> None:
    citation = _read(ROOT / "CITATION.cff")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert citation["version"] == __version__
    assert [author["name"] for author in citation["authors"]] == [
        "The nws_sweep developers"
    ]
    assert '\nauthors = [{ name = "nws_sweep developers" }]\n' in project
