"""The report as HTML, a self-contained file, and as Markdown; text from outside is
escaped in both.

The templates get a summary, and functions that give tables of formatted text and the
phrases of an answer. HTML is escaped by Jinja; ``report.md`` calls ``line`` for each
text and ``rows`` for each table.
"""

import base64
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from nws_sweep import units
from nws_sweep.analysis import twins
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, fastest_of
from nws_sweep.analysis.twins import Twins
from nws_sweep.errors import joined_lines, printable
from nws_sweep.report import explanation, formats, plots, snippets
from nws_sweep.report.plots import facets

# title, a description with its figures, and the PNG, which has an SVG beside it
Picture = tuple[str, str, Path]


def setting(configuration: ConfigurationSummary) -> str:
    """Names the recommended setting of a configuration, such as ``num_workers=4``;
    empty without an answer."""
    if configuration.answer is None:
        return ""
    result = configuration.run.result
    candidate = snippets.of_trial(configuration.answer, result).candidate
    return f"num_workers={candidate}{result.configuration.rank_suffix}"


class Card(NamedTuple):
    """The fastest of those configurations that a user may choose from.

    Attributes:
        label: The points of the grid that it stands for.
        configuration: That of the fastest point; of points that are as fast, without
            page-locked memory.
    """

    label: str
    configuration: ConfigurationSummary


def heading(summary: Summary) -> str:
    """Says what the page begins with: settings, those of the fastest configuration of
    each dataset and batch size, or that there are none."""
    shown, count = cards(summary), len(_choices(summary))
    if not shown:
        return "Nothing could be measured"
    if count > 1:
        names = _in_words(summary)
        which = f"each {' and '.join(names)}"
        if count > len(shown):
            several = " and ".join(f"{name}s" for name in names)
            which = f"{len(shown)} of {count} {several}"
        return f"The fastest settings for {which}"
    if len(summary.configurations) > 1:
        return f"The fastest of {len(summary.configurations)} combinations"
    if shown[0].configuration.answer is None:
        return "Undecided"
    if formats.is_too_early(shown[0].configuration):
        return "Not certain yet"
    return "Set this"


def cards(summary: Summary) -> list[Card]:
    """Makes a card for each dataset and batch size that was measured; of many, for the
    first ones."""
    made_of = []
    for rows in _choices(summary).values():
        fastest = fastest_of(row.first for row in rows)
        for row in rows:
            if row.first is fastest:
                made_of.append(row)
    return [_card(summary, row) for row in made_of[: facets.MOST_DATASETS]]


def _card(summary: Summary, row: Twins) -> Card:
    def is_pinned(configuration: ConfigurationSummary) -> bool:
        return configuration.configuration.loader.pin_memory

    return Card(row.label(summary.varying), min(row.configurations, key=is_pinned))


def _choices(summary: Summary) -> dict[tuple[Any, ...], list[Twins]]:
    """Groups the rows of the table of a grid by what nws_sweep does not choose."""
    groups: dict[tuple[Any, ...], list[Twins]] = {}
    for row in twins.as_fast(summary):
        values = tuple(row.values(name) for name in _fixed(summary))
        groups.setdefault(values, []).append(row)
    return groups


def _fixed(summary: Summary) -> list[str]:
    """The axes that change what is trained, which nws_sweep does not choose."""
    sizes = [name for name in summary.distinguishing if name == "batch_size"]
    return [*summary.of_datasets, *sizes]


def _in_words(summary: Summary) -> list[str]:
    """Names what nws_sweep does not choose: ``dataset``, ``batch size``."""
    words = (
        "batch size" if name == "batch_size" else "dataset" for name in _fixed(summary)
    )
    return list(dict.fromkeys(words))


def report(summary: Summary, pictures: Sequence[Picture]) -> str:
    """Renders the report as one HTML file, whose tables sort numbers by value and
    unit."""
    return rendered("report.html", summary=summary, pictures=pictures)


def markdown(summary: Summary, pictures: Sequence[Picture] = ()) -> str:
    """Renders the report as Markdown, with these pictures and the pictures in the
    folders of the configurations."""
    text = rendered("report.md", summary=summary, pictures=pictures)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def drawn(configuration: ConfigurationSummary) -> Iterator[tuple[str, Path]]:
    """Yields what the pictures in the folder of a configuration show, and their
    paths."""
    for name, subject in plots.OF_CONFIGURATION.items():
        path = configuration.run.folder / f"{name}.png"
        if path.is_file():
            yield subject, path


def rendered(template: str, **values: Any) -> str:
    """Renders a file of ``templates/`` with these values, without control characters;
    in HTML values are escaped."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nws_sweep.report"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters.update(
        line=_in_markdown, rows=_rows_in_markdown, target=_target_in_markdown, svg=_svg
    )
    environment.globals.update(
        drawn=drawn,
        explanation=explanation,
        cards=cards,
        formats=formats,
        heading=heading,
        setting=setting,
        snippets=snippets,
        units=units,
    )
    return environment


def _finalized(value: Any) -> Any:
    # subclasses are HTML already
    return printable(value) if type(value) is str else value


def _svg(png: Path) -> str:
    """Encodes the SVG beside a PNG."""
    return base64.b64encode(png.with_suffix(".svg").read_bytes()).decode()


def _in_markdown(text: str) -> str:
    """Joins the lines of a text, and escapes what Markdown would take for HTML, links
    and pictures."""
    return _escaped(joined_lines(text))


def _rows_in_markdown(table: Sequence[Sequence[str]]) -> str:
    return _escaped(snippets.markdown_table(table))


def _escaped(text: str) -> str:
    return re.sub(r"(\\*)([\[\]])", r"\1\1\\\2", text).replace("<", "&lt;")


def _target_in_markdown(path: Path) -> str:
    """Quotes the path of a picture for angle brackets; names of folders may have any
    characters."""
    return quote(path.as_posix(), safe="/=,+~@[]")
