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
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from nws_sweep import units
from nws_sweep.analysis.summary import ConfigurationSummary, Summary, fastest_of
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


def heading(summary: Summary) -> str:
    """Says what the page begins with: settings, those of the fastest configuration of
    each dataset, or that there are none."""
    answers, count = fastest_of_each(summary), len(facets.by_dataset(summary))
    if not answers:
        return "Nothing could be measured"
    if count > 1:
        which = (
            "each dataset"
            if count == len(answers)
            else f"{len(answers)} of {count} datasets"
        )
        return f"The fastest settings for {which}"
    if len(summary.configurations) > 1:
        return f"The fastest of {len(summary.configurations)} combinations"
    return "Set this" if answers[0].answer else "Undecided"


def fastest_of_each(summary: Summary) -> list[ConfigurationSummary]:
    """Selects the fastest configuration of each dataset that was measured; of many,
    the first ones."""
    fastest = map(fastest_of, facets.by_dataset(summary).values())
    return [*filter(None, fastest)][: facets.MOST_DATASETS]


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
        fastest_of_each=fastest_of_each,
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
