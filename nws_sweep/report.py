"""Writes the report of a run or a grid from its files: tables, pictures, best settings, and pages that show them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nws_sweep import cells, csv_table, disk, formats, per_rank, storage, tables
from nws_sweep.analysis import ConfigurationSummary, Summary, summarise
from nws_sweep.batch_table import BatchTime
from nws_sweep.errors import NotARunError
from nws_sweep.records import Host, Trial

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture in the report: its file, relative to the report's folder, what it is called, and what it shows."""

    path: Path
    title: str
    alt: str


def write(folder: Path) -> tuple[Summary, list[Path]]:
    """Rebuilds the report of a run or a grid from its files, also of an interrupted one.

    Returns:
        What was found, and the files written, the report first; of a grid without those of single configurations. A
        folder stands for all files in it, a PNG for the SVG beside it.

    Raises:
        NotARunError: If the folder is neither.
    """
    summary = summary_of(folder)
    pictures = list(_write_pictures(summary))
    figures = [*_write_tables(summary), *_write_best(summary)]
    report = folder / storage.REPORT
    disk.write_text(report, markdown(summary, [picture for picture, _ in pictures]))
    html_report = _write_page(summary, pictures)
    own = [folder / storage.PLOTS] if summary.stored.is_grid else [as_png for _, (as_png, _) in pictures]
    return summary, [html_report, report, *figures, *own]


def summary_of(folder: Path) -> Summary:
    """What was found in a folder.

    Raises:
        NotARunError: If it is no run and no grid.
    """
    return summarise(storage.find(folder))


def _write_page(summary: Summary, pictures: Iterable[tuple[Picture, tuple[Path, Path]]]) -> Path:
    from nws_sweep import html, page, vector

    drawn = [
        html.Drawn(
            title=picture.title,
            alt=picture.alt,
            svg=vector.inline(files[1].read_text("utf-8"), picture.path.stem, picture.title, picture.alt),
        )
        for picture, files in pictures
    ]
    path = summary.stored.folder / storage.PAGE
    disk.write_text(path, html.report(page.page(summary), drawn))
    return path


def write_pictures(run_folder: Path) -> list[Path]:
    """Writes the pictures of a single configuration, which a report of its grid shows and leaves alone.

    Raises:
        NotARunError: If there is no result in the folder.
    """
    from nws_sweep import easels, illustrations

    (configuration,) = summarise(storage.find(run_folder)).configurations
    chosen = illustrations.of_configuration(configuration, _batches)
    return [path for paths in easels.save(chosen, run_folder) for path in paths]


def try_pictures(run_folder: Path) -> None:
    """Writes them if it can: what was measured must not be lost for a picture."""
    try:
        write_pictures(run_folder)
    except OSError as error:  # a full disk, say
        logger.warning("the pictures of %s could not be written: %s", run_folder, error)
    except Exception:
        logger.exception("the pictures of %s could not be drawn; `nws-sweep report` tries again", run_folder)


def _write_pictures(summary: Summary) -> Iterator[tuple[Picture, tuple[Path, Path]]]:
    from nws_sweep import easels, illustrations

    folder = summary.stored.folder / storage.PLOTS if summary.stored.is_grid else summary.stored.folder
    folder.mkdir(exist_ok=True)
    chosen = illustrations.of(summary, _batches)
    for one, paths in zip(chosen, easels.save(chosen, folder), strict=True):
        yield Picture(path=paths[0].relative_to(summary.stored.folder), title=one.title, alt=one.alt), paths


def _batches(configuration: ConfigurationSummary) -> list[BatchTime]:
    try:
        return storage.read_batches(configuration.run.folder)
    except NotARunError as error:  # the figures do not need it
        logger.warning("%s; its single batches are not drawn", error)
        return []


def _write_tables(summary: Summary) -> Iterator[Path]:
    if not summary.stored.is_grid:
        return
    for name, table in ((storage.GRID_RESULTS, tables.trials(summary)), (storage.GRID_BEST, tables.best(summary))):
        path = summary.stored.folder / name
        disk.write_text(path, csv_table.csv_text(table.columns, table.rows))
        yield path


def _write_best(summary: Summary) -> Iterator[Path]:
    path = summary.stored.folder / storage.BEST
    disk.write_text(path, formats.render(summary, "yaml").file)
    yield path
    options, group = formats.options(summary), summary.stored.folder / storage.BEST_GROUP
    storage.write_options(group, options)
    if options:
        yield group
    if summary.stored.is_grid:
        for configuration in summary.configurations:
            disk.write_text(configuration.run.folder / storage.BEST, formats.best_file(configuration).file)


def markdown(summary: Summary, pictures: Iterable[Picture]) -> str:
    """The report as Markdown, with its own pictures; those of a grid's configurations stand in their sections."""
    sections = [
        f"# {_escaped(summary.title)}",
        "## Best settings\n\n" + formats.as_markdown_table(summary),
        *_lists(summary),
        *(f"![{_escaped(picture.alt)}]({picture.path.as_posix()})" for picture in pictures),
        *(_configuration_section(c, summary) for c in summary.configurations),
        _host_section(summary),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _lists(summary: Summary) -> Iterator[str]:
    told = (
        ("Fastest on each kind of node", formats.fastest_lines(summary)),
        ("Failures", summary.failures),
        ("Warnings", summary.all_warnings),
    )
    for title, lines in told:
        if lines:
            yield f"## {title}\n\n" + "\n".join(f"- {_escaped(line)}" for line in lines)


def _escaped(text: str) -> str:
    """Text that may hold what people called their files, safe outside of tables."""
    return text.replace("<", "&lt;")


def _configuration_section(configuration: ConfigurationSummary, summary: Summary) -> str:
    result = configuration.run.result
    relative = configuration.run.folder.relative_to(summary.stored.folder)
    parts = [
        f"## {_escaped(configuration.label)}",
        "\n".join(f"- {_escaped(line)}" for line in configuration.explanation),
        f"Stopped: {result.stop_reason or 'did not finish'}. The {formats.cost_line(result)}.",
        formats.markdown_table(_TRIAL_HEADER, [_trial_cells(trial, configuration) for trial in configuration.trials]),
    ]
    parts += [f"The {configuration.rule}."] if configuration.rule else []
    parts += _ranks(configuration)
    if result.error:
        parts.insert(1, f"Failed: {_escaped(result.error)}")
    parts += _own_pictures(configuration, relative) if summary.stored.is_grid else []
    return "\n\n".join(part.strip() for part in parts if part)


def _ranks(configuration: ConfigurationSummary) -> Iterator[str]:
    """The ranks at the best setting, where there are several."""
    best = configuration.best
    if best and best.measurement and best.measurement.ranks:
        yield f"The ranks with num_workers={best.num_workers} each, by step:"
        rows = [list(row) for row in per_rank.rows(best.measurement.ranks)]
        yield formats.markdown_table(list(per_rank.HEADER), rows)


def _own_pictures(configuration: ConfigurationSummary, relative: Path) -> list[str]:
    """Those that stand in the folder of a configuration already."""
    found = ((storage.SCALING_PLOT, "how it scales"), (storage.BATCHES_PLOT, "per-batch times"))
    files = [(f"{name}.png", what) for name, what in found]
    return [
        f"![{what}](<{(relative / name).as_posix()}>)"
        for name, what in files
        if (configuration.run.folder / name).is_file()
    ]


_TRIAL_HEADER = ["num_workers", "per batch", "samples/s", "start-up", "epoch", "waiting", "bursts", "state"]


def _trial_cells(trial: Trial, configuration: ConfigurationSummary) -> list[str]:
    shown = cells.of_trial(trial, configuration.configuration)
    return [
        shown.candidate, shown.batch, shown.rate, shown.startup, shown.epoch, shown.waiting, shown.bursts, shown.state,
    ]  # fmt: skip


def _host_facts(host: Host) -> Iterator[str]:
    yield (
        f"{host.hostname}: {host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} CPUs, "
        f"{host.memory_bytes / 2**30:.1f} GiB memory, {host.platform}"
    )
    yield f"Python {host.python}, torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}"


def _host_section(summary: Summary) -> str:
    facts = [
        *(line for host in summary.hosts for line in _host_facts(host)),
        "An interval (±) is of 95 %, over bursts of batches; with fewer than three bursts there is none. "
        "The recommended candidate has the fewest workers among those that are not slower than the fastest by more "
        "than search.tolerance.",
    ]
    return "## Host and method\n\n" + "\n".join(f"- {fact}" for fact in facts)
