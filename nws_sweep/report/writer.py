"""Writes the report of a run or a grid from its files: tables, pictures, best settings,
Markdown and HTML."""

import logging
import shlex
from pathlib import Path

from nws_sweep.analysis.summary import ConfigurationSummary, Summary, summarise
from nws_sweep.errors import NotARunError
from nws_sweep.records import BatchTime, atomic, storage
from nws_sweep.report import formats, plots, tables

logger = logging.getLogger(__name__)


def write(folder: Path) -> tuple[Summary, list[Path]]:
    """Rebuilds the report of a run or a grid from its files, also of an interrupted
    one.

    Returns:
        The summary, and the files written, the report first; a folder stands for all
        files in it, a PNG for the SVG beside it. For a grid, the files of single
        configurations are left out.

    Raises:
        NotARunError: If the folder is neither.
        ConfigurationError: If a folder in it is a link that leads out of it.
    """
    from nws_sweep.report import figures, page

    summary = summarise(storage.find(folder))
    is_grid = summary.stored.is_grid
    place = folder / storage.PLOTS if is_grid else folder
    atomic.refuse_links_out(folder, [place])
    place.mkdir(exist_ok=True)
    pictures = [
        (picture.title, picture.alt, picture.save(place))
        for picture in figures.of(summary, _batches)
    ]
    texts = {
        storage.PAGE: page.report(summary, pictures),
        storage.REPORT: page.markdown(summary, pictures),
    }
    if is_grid:
        texts |= {
            storage.GRID_RESULTS: tables.trials(summary).text,
            storage.GRID_BEST: tables.best(summary).text,
        }
    texts[storage.BEST] = formats.render(summary, "yaml").file
    for name, text in texts.items():
        atomic.write_text(folder / name, text)
    written = [folder / name for name in texts]
    if not is_grid:
        return summary, written + [path for _, _, path in pictures]
    for configuration in summary.configurations:
        atomic.write_text(
            configuration.run.folder / storage.BEST,
            formats.best_file(configuration).file,
        )
    return summary, [*written, place]


def try_pictures(run_folder: Path) -> None:
    """Writes the pictures of a single configuration; the report of its grid links to
    them.

    Errors are logged: measurements must not be lost because of a picture.
    """
    try:
        from nws_sweep.report import figures

        (configuration,) = summarise(storage.find(run_folder)).configurations
        for picture in figures.of_configuration(configuration, _batches):
            picture.save(run_folder)
    except Exception:
        quoted = shlex.quote(str(run_folder))
        logger.exception(
            "the pictures could not be drawn; `nws-sweep report %s` tries again", quoted
        )


def has_pictures(run_folder: Path) -> bool:
    """Whether the pictures of a configuration exist."""
    last = run_folder / f"{[*plots.OF_CONFIGURATION][-1]}.svg"  # written after its PNG
    return last.exists() or not storage.has_rows(run_folder / storage.BATCHES)


def _batches(configuration: ConfigurationSummary) -> list[BatchTime]:
    try:
        return storage.read_batches(configuration.run.folder)
    except NotARunError as error:  # the other pictures do not need them
        logger.warning("%s; the times of its batches are not drawn", error)
        return []
