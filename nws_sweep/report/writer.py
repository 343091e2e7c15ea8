"""Writes the report of a run or a grid from its files: tables, pictures, best settings, Markdown and HTML."""

import base64
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from nws_sweep.analysis.summary import ConfigurationSummary, Summary, summarise
from nws_sweep.errors import NotARunError
from nws_sweep.report import plots, snippets, tables
from nws_sweep.results import BatchTime, atomic, codec, storage

logger = logging.getLogger(__name__)

# The pictures of a single configuration: what each shows, and the file with its data.
_PICTURES = {
    plots.WHAT_IF: ("predicted times", storage.COSTS),
    plots.BATCH_TIMES: ("per-batch times", storage.BATCHES),
}


def write(folder: Path) -> tuple[Summary, list[Path]]:
    """Rebuilds the report of a run or a grid from its files, also of an interrupted one.

    Returns:
        The summary, and the files written, the report first; a folder stands for all files in it, a PNG for the SVG
        beside it. For a grid, the files of single configurations are left out.

    Raises:
        NotARunError: If the folder is neither.
    """
    from nws_sweep.report import figures, page

    summary = summarise(storage.find(folder))
    place = folder / storage.PLOTS if summary.stored.is_grid else folder
    place.mkdir(exist_ok=True)
    pictures, embedded = [], []
    for one in figures.of(summary, _batches):
        png, svg = one.save(place)
        pictures.append((one.alt, png.relative_to(folder)))
        embedded.append((one.title, one.alt, base64.b64encode(svg.read_bytes()).decode()))
    drawn = [place] if summary.stored.is_grid else [folder / path for _, path in pictures]
    own = [*_write_tables(summary), *_write_best(summary), *drawn]
    atomic.write_text(folder / storage.REPORT, page.markdown(summary, pictures, drawn_in))
    atomic.write_text(folder / storage.PAGE, page.report(summary, embedded))
    return summary, [folder / storage.PAGE, folder / storage.REPORT, *own]


def try_pictures(run_folder: Path) -> None:
    """Writes the pictures of a single configuration; the report of its grid links to them.

    Errors are logged: measurements must not be lost because of a picture.
    """
    try:
        from nws_sweep.report import figures

        (configuration,) = summarise(storage.find(run_folder)).configurations
        for one in figures.of_configuration(configuration, _batches):
            one.save(run_folder)
    except OSError as error:  # such as a full disk
        logger.warning("the pictures of %s could not be written: %s", run_folder, error)
    except Exception:
        logger.exception("the pictures of %s could not be drawn; `nws-sweep report` tries again", run_folder)


def has_pictures(run_folder: Path) -> bool:
    """Whether the pictures of a configuration exist."""
    names = [name for name, (_, data) in _PICTURES.items() if storage.has_rows(run_folder / data)]
    return all((run_folder / f"{name}.svg").exists() for name in names)  # written after the PNG


def drawn_in(run_folder: Path) -> list[tuple[str, Path]]:
    """The pictures in the folder of a configuration, with what each one shows."""
    paths = ((what, run_folder / f"{name}.png") for name, (what, _) in _PICTURES.items())
    return [(what, path) for what, path in paths if path.is_file()]


def _batches(configuration: ConfigurationSummary) -> list[BatchTime]:
    try:
        return storage.read_batches(configuration.run.folder)
    except NotARunError as error:  # the other pictures do not need them
        logger.warning("%s; the times of its batches are not drawn", error)
        return []


def _write_tables(summary: Summary) -> Iterator[Path]:
    if not summary.stored.is_grid:
        return
    for name, table in ((storage.GRID_RESULTS, tables.trials(summary)), (storage.GRID_BEST, tables.best(summary))):
        path = summary.stored.folder / name
        atomic.write_text(path, codec.table_text(table.columns, table.rows))
        yield path


def _write_best(summary: Summary) -> Iterator[Path]:
    path = summary.stored.folder / storage.BEST
    atomic.write_text(path, snippets.render(summary, "yaml").file)
    yield path
    options, group = snippets.options(summary), summary.stored.folder / storage.BEST_GROUP
    write_options(group, options)
    if options:
        yield group
    if summary.stored.is_grid:
        for configuration in summary.configurations:
            atomic.write_text(configuration.run.folder / storage.BEST, snippets.best_file(configuration).file)


def write_options(group: Path, options: Mapping[str, str]) -> None:
    """Writes the YAML of each option of a config group, and removes obsolete options of earlier reports."""
    if options:
        group.mkdir(parents=True, exist_ok=True)
    for name, text in options.items():
        atomic.write_text(group / f"{name}.yaml", text)
    kept = {name.casefold() for name in options}
    for path in group.glob("*.yaml"):
        if path.stem.casefold() not in kept and snippets.OPTION_MARK.encode() in path.read_bytes():
            path.unlink()
