"""Values become pages: self-contained, nothing is fetched; everything from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nws_sweep.comparing import RunComparison
from nws_sweep.data_table import Table
from nws_sweep.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture in the page: its title, what it shows in words, and the SVG element."""

    title: str
    alt: str
    svg: str


def report(page: Page, pictures: Sequence[Drawn]) -> str:
    """The report as one HTML file."""
    shown = [Drawn(title=one.title, alt=one.alt, svg=Markup(one.svg)) for one in pictures]
    return _render("report.html", title=page.title, page=page, pictures=shown)


def comparison(value: RunComparison, origins: tuple[str, str], pairs: Table, summary: Sequence[str]) -> str:
    """The comparison of two runs or grids as one HTML file.

    Args:
        value: What is compared.
        origins: Where A and B come from, a line each.
        pairs: The configurations that are in both.
        summary: What is to be said of all of them, a line each.
    """
    title = f"Comparison of {value.a.stored.folder.name} and {value.b.stored.folder.name}"
    return _render("comparison.html", title=title, value=value, origins=origins, pairs=pairs, summary=summary)


def _render(template: str, **values: Any) -> str:
    style, behaviour = (Markup(_resource(name)) for name in ("style.css", "behaviour.js"))
    return _environment().get_template(template).render(style=style, behaviour=behaviour, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nws_sweep"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["as_data"] = as_data
    return environment


def _resource(name: str) -> str:
    return (files("nws_sweep") / "templates" / name).read_text("utf-8")


def as_data(table: Table) -> Markup:
    """A table as JSON that may stand in a script element, whatever its cells hold."""
    text = json.dumps({"numeric": table.numeric, "rows": table.rows, "keys": table.keys}, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
