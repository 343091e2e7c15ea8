"""Writes the report of a run or a grid from its files: tables, plots, best settings, and Markdown that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from nws_sweep import cells, formats, storage
from nws_sweep.analysis import ConfigurationSummary, Summary, best_settings, summarise
from nws_sweep.records import Trial


def write(folder: Path) -> tuple[Summary, list[Path]]:
    """Rebuilds the report of a run or a grid from its files, also of an interrupted one.

    Returns:
        What was found, and the files written, the report first; of a grid without those of single configurations. A
        folder stands for all files in it.

    Raises:
        NotARunError: If the folder is neither.
    """
    summary = summarise(storage.find(folder))
    comparisons = list(_write_comparison(summary))
    own = [path for c in summary.configurations for path in (*_write_scaling_plot(c), *_write_batch_plot(c))]
    tables = [*_write_tables(summary), *_write_best(summary)]
    report = folder / storage.REPORT
    storage.write_text(report, markdown(summary, [path.relative_to(folder) for path in comparisons]))
    return summary, [report, *tables, *comparisons, *([] if summary.stored.is_grid else own)]


def _write_comparison(summary: Summary) -> Iterator[Path]:
    from nws_sweep import drawing, plots

    folder = summary.stored.folder / storage.PLOTS if summary.stored.is_grid else summary.stored.folder
    folder.mkdir(exist_ok=True)
    if panels := plots.comparisons(summary):
        drawing.save(plots.draw_comparison(panels, "Time against num_workers"), folder / storage.COMPARISON_PLOT)
        yield folder / storage.COMPARISON_PLOT
    if summary.stored.is_grid and (bars := plots.bars(summary)):
        drawing.save(plots.draw_bars(bars, "Best setting per configuration"), folder / storage.BEST_PLOT)
        yield folder / storage.BEST_PLOT


def _write_scaling_plot(configuration: ConfigurationSummary) -> Iterator[Path]:
    """How a configuration scales with its workers, and what they cost."""
    from nws_sweep import drawing, scaling_plots

    picture = configuration.run.folder / storage.SCALING_PLOT
    if not _is_newer(picture, configuration.run.folder / storage.RESULT):
        scaled, paid = scaling_plots.scaling(configuration), scaling_plots.prices(configuration)
        if scaled is None and paid is None:
            return
        drawing.save(scaling_plots.draw(scaled, paid, configuration.label), picture)
    yield picture


def _write_batch_plot(configuration: ConfigurationSummary) -> Iterator[Path]:
    """The per-batch times of a configuration, unless the picture is newer than what it shows."""
    from nws_sweep import drawing, plots

    run_folder = configuration.run.folder
    picture = run_folder / storage.BATCHES_PLOT
    if not _is_newer(picture, run_folder / storage.BATCHES):
        lines = plots.timelines(storage.read_batches(run_folder))
        if not lines:
            return
        drawing.save(plots.draw_timelines(lines, f"Per-batch times, {configuration.label}"), picture)
    yield picture


def _is_newer(path: Path, source: Path) -> bool:
    return path.is_file() and source.is_file() and path.stat().st_mtime >= source.stat().st_mtime


def _write_tables(summary: Summary) -> Iterator[Path]:
    if not summary.stored.is_grid:
        return
    from nws_sweep import tables

    for name, frame in (
        (storage.GRID_RESULTS, tables.trials_frame(summary)),
        (storage.GRID_BEST, tables.best_frame(summary)),
    ):
        path = summary.stored.folder / name
        storage.write_text(path, frame.to_csv(index=False))
        yield path


def _write_best(summary: Summary) -> Iterator[Path]:
    path = summary.stored.folder / storage.BEST
    storage.write_text(path, formats.as_yaml(formats.documents(summary)))
    yield path
    options, group = formats.options(summary), summary.stored.folder / storage.BEST_GROUP
    storage.write_options(group, options)
    if options:
        yield group
    if summary.stored.is_grid:
        for configuration in summary.configurations:
            text = formats.as_yaml(best_settings(configuration))
            storage.write_text(configuration.run.folder / storage.BEST, text)


def markdown(summary: Summary, pictures: Iterable[Path]) -> str:
    """The report as Markdown, with the pictures that concern all configurations, relative to its folder."""
    sections = [
        f"# {_escaped(summary.title)}",
        "## Best settings\n\n" + formats.as_markdown_table(summary),
        *_lists(summary),
        *(f"![{path.stem.replace('_', ' ')}]({path.as_posix()})" for path in pictures),
        *(_configuration_section(c, summary) for c in summary.configurations),
        _host_section(summary),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _lists(summary: Summary) -> Iterator[str]:
    for title, lines in (("Failures", summary.failures), ("Warnings", summary.all_warnings)):
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
    if result.error:
        parts.insert(1, f"Failed: {_escaped(result.error)}")
    for name, what in ((storage.SCALING_PLOT, "how it scales"), (storage.BATCHES_PLOT, "per-batch times")):
        if (configuration.run.folder / name).is_file():
            parts.append(f"![{what}](<{(relative / name).as_posix()}>)")
    return "\n\n".join(part.strip() for part in parts if part)


_TRIAL_HEADER = ["num_workers", "per batch", "samples/s", "start-up", "epoch", "waiting", "bursts", "state"]


def _trial_cells(trial: Trial, configuration: ConfigurationSummary) -> list[str]:
    shown = cells.of_trial(trial, configuration.configuration)
    return [
        shown.candidate, shown.batch, shown.rate, shown.startup, shown.epoch, shown.waiting, shown.bursts, shown.state,
    ]  # fmt: skip


def _host_section(summary: Summary) -> str:
    host = summary.host
    facts = [
        f"{host.hostname}: {host.cpu_model}, {host.usable_cpus} usable of {host.cpu_count} CPUs, "
        f"{host.memory_bytes / 2**30:.1f} GiB memory, {host.platform}",
        f"Python {host.python}, torch {host.torch}, torchvision {host.torchvision}, nws_sweep {host.nws_sweep}",
        "An interval (±) is of 95 %, over bursts of batches; with fewer than three bursts there is none. "
        "The recommended candidate has the fewest workers among those that are not slower than the fastest by more "
        "than search.tolerance.",
    ]
    return "## Host and method\n\n" + "\n".join(f"- {fact}" for fact in facts)
