"""Renders values as self-contained HTML pages; text from outside is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nws_sweep.analysis.comparing import RunComparison
from nws_sweep.report import comparison_text
from nws_sweep.report.page import Page, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineFigure:
    """A figure in the page: its title, a description for screen readers, and the SVG element."""

    title: str
    alt: str
    svg: str


def report(page: Page, pictures: Sequence[InlineFigure]) -> str:
    """The report as one HTML file."""
    return _render("report.html", title=page.title, page=page, pictures=pictures)


def comparison(value: RunComparison) -> str:
    """The comparison of two runs or grids as one HTML file."""
    differing = ("what", "A", "B")
    header = ("configuration", *comparison_text.HEADER[1:], "note")
    rows = [(*comparison_text.row(pair), "; ".join(pair.notes)) for pair in value.pairs]
    return _render(
        "comparison.html",
        title=f"Comparison of {value.a.stored.folder.name} and {value.b.stored.folder.name}",
        origins=(comparison_text.origin(value.a), comparison_text.origin(value.b)),
        pairs=Table(header, rows),
        summary=list(comparison_text.about_all(value)),
        differences=(
            ("settings", "Other differences between the settings", Table(differing, value.settings)),
            ("hosts", "Differences between the hosts", Table(differing, value.hosts)),
        ),
        only=[*(f"A: {label}" for label in value.only_a), *(f"B: {label}" for label in value.only_b)],
    )


def _render(template: str, **values: Any) -> str:
    folder = files("nws_sweep.report") / "templates"
    style, behaviour = (Markup((folder / name).read_text("utf-8")) for name in ("style.css", "behaviour.js"))
    environment = Environment(
        loader=PackageLoader("nws_sweep.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template(template).render(style=style, behaviour=behaviour, **values)
