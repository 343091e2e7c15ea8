"""The best settings ready to paste: overrides, keywords and arguments, YAML, JSON."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from nws_sweep.analysis import answers
from nws_sweep.analysis.summary import ConfigurationSummary, Summary
from nws_sweep.config import project_keys
from nws_sweep.errors import ConfigurationError, joined_lines, one_line
from nws_sweep.records import LoaderSettings, Status, ranges
from nws_sweep.report import snippets

FORMATS = ("table", "overrides", "kwargs", "lightning", "transformers", "yaml", "json")

TOO_EARLY = (
    "nothing to paste: workers may be faster; search longer, with a larger time limit"
)

# Arguments of transformers.TrainingArguments, by the settings.
_TRAINING_ARGUMENTS = {"batch_size": "per_device_train_batch_size"} | {
    name: f"dataloader_{name}"
    for name in ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers")
}

# The C version is ten times as fast; some platforms lack it.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """The best settings in one format."""

    text: str  # ready to paste: empty, or whole lines
    comments: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Writes comments and text as YAML."""
        return (
            "".join(f"# {joined_lines(line)}\n" for line in self.comments) + self.text
        )


def best_settings(summary: ConfigurationSummary) -> dict[str, Any] | None:
    """Selects the DataLoader keywords to paste; None without an answer.

    The keywords are num_workers, settings that were searched or vary in the grid, and
    settings in which the measured loader differs from the user's DataLoader, or from
    DataLoader's defaults if there is no DataLoader.
    """
    if summary.answer is None:
        return None
    facts, settings = summary.run.result.facts, summary.answer.settings
    original = facts.loader if facts and facts.loader else LoaderSettings(batch_size=1)
    searched = set(summary.searched)
    # DataLoader rejects these settings without workers
    if summary.project and settings.num_workers == 0:
        in_project = {*summary.project.keys, *summary.project.unclear}
        searched |= in_project & {"prefetch_factor", "persistent_workers"}
    return settings.changes(original, searched)


def render(summary: Summary, format_name: str, key: str | None = None) -> Snippet:
    """Renders the best settings in one of ``FORMATS``.

    Args:
        summary: The results.
        format_name: ``table``, ``yaml`` and ``json`` (one mapping for a run, a list for
            a grid) hold all configurations, the others the fastest; ``best --help``
            says for what.
        key: The place of the settings in the user's configuration, such as ``data`` for
            ``++data.num_workers=4``: the prefix of ``overrides`` and ``lightning``, and
            the package of ``yaml``, which Hydra then composes there. Without it
            ``lightning`` uses LightningCLI's ``data``; ``overrides`` and the ``yaml``
            of a run use the keys of the project's config if one was measured.

    Raises:
        ConfigurationError: If the key is invalid, or a setting below it is a mapping of
            the project's config, or the format holds one configuration and there are
            several datasets.
    """
    if key and not ranges.fits(key, ranges.DottedKey):
        raise ConfigurationError(
            one_line(f"--key {key}: must be names joined by dots, such as data.loader")
        )
    if format_name in ("table", "json") or (format_name == "yaml" and key is None):
        return _of_all(summary, format_name)
    number = len(summary.configurations)
    if number == 1:
        return _of_single(summary.configurations[0], format_name, key)
    fastest = summary.fastest
    # samples of two datasets cannot be compared
    if fastest is None or summary.of_datasets:
        varying = ""
        if summary.distinguishing:
            varying = f" ({', '.join(summary.distinguishing)})"
        raise ConfigurationError(
            f"--format {format_name}: holds one combination, but there are {number}; "
            f"pick one with --where KEY=VALUE{varying}, or pass its folder"
        )
    rendered = _of_single(fastest, format_name, key)
    comments = [
        f"of {number} combinations, {fastest.label} loads the most {summary.rate_unit}; --where chooses another"
    ]
    if summary.unlike_machines:
        comments.append(summary.unlike_machines)
    return replace(rendered, comments=(*comments, *rendered.comments))


def _of_all(summary: Summary, format_name: str) -> Snippet:
    is_single = len(summary.configurations) == 1
    if format_name == "table":
        text = snippets.markdown_table(snippets.best_table(summary))
        lines = "".join(f"{line}\n" for line in snippets.first_lines_of(summary))
        if is_single:
            text = f"{lines}\n{text}"
        elif lines:
            text += f"\n{lines}"
        return Snippet(text=text, comments=_labelled(summary, _of_ranks))
    is_grid = summary.stored.is_grid
    if format_name == "yaml" and not is_grid:
        (configuration,) = summary.configurations
        if reason := _reason_against(configuration):
            return _nothing(configuration, reason)
        return best_file(configuration)
    mappings = [as_mapping(configuration) for configuration in summary.configurations]
    document = mappings if is_grid else mappings[0]
    text = f"{json.dumps(document, indent=2)}\n"
    if format_name == "yaml":
        text = as_yaml(document)
    return Snippet(text=text, comments=_labelled(summary, _about))


def _labelled(
    summary: Summary, lines_of: Callable[[ConfigurationSummary], Iterator[str]]
) -> tuple[str, ...]:
    """Lists that machines are unlike, then the lines about all configurations."""
    return tuple(filter(None, (summary.unlike_machines, *summary.labelled(lines_of))))


def as_mapping(configuration: ConfigurationSummary) -> dict[str, Any]:
    """Describes an answer for other programs: configuration, how the answer was found,
    and keywords of DataLoader."""
    status = configuration.status
    return {
        "configuration": dict(configuration.configuration.columns),
        "status": status and status.value,
        "loader": best_settings(configuration),
    }


def _of_single(
    configuration: ConfigurationSummary, format_name: str, key: str | None
) -> Snippet:
    if reason := _reason_against(configuration):
        return _nothing(configuration, reason)
    settings = best_settings(configuration) or {}
    if key is not None and configuration.project is not None:
        project_keys.refuse_mapping(settings, configuration.project, key)
    comments = [*_about(configuration)]
    if format_name == "yaml":
        line = f"# @package {key or '_global_'}\n{as_yaml(settings).rstrip()}"
    elif format_name == "kwargs":
        line = kwargs(settings)
    elif format_name == "lightning":
        line = arguments(settings, "--", "data" if key is None else key)
    elif format_name == "transformers":
        line = transformers(settings)
        comments += unknown_to_transformers(settings)
    elif key is not None:
        line = arguments(settings, "++", key)
    else:
        line = overrides_in_place(configuration)
        comments += left_out(configuration)
    return Snippet(text=f"{line}\n" if line else "", comments=tuple(comments))


def _nothing(configuration: ConfigurationSummary, reason: str) -> Snippet:
    return Snippet(text="", comments=(f"{configuration.label}: {reason}",))


def _reason_against(configuration: ConfigurationSummary) -> str:
    """Why there is nothing to paste; empty if there is."""
    if not best_settings(configuration):
        return configuration.conclusion.answer
    if is_too_early(configuration):
        return f"{configuration.conclusion.answer}; {TOO_EARLY}"
    return ""


def is_too_early(configuration: ConfigurationSummary) -> bool:
    """Whether nothing must be pasted yet: a search that was cut short has not found
    that workers do not help."""
    if configuration.answer is None:
        return True
    is_provisional = configuration.status is Status.PROVISIONAL
    return is_provisional and configuration.answer.num_workers == 0


def best_file(configuration: ConfigurationSummary) -> Snippet:
    """Writes the best setting as YAML: keywords of DataLoader, or keys of the config if
    a project was measured."""
    settings, project = best_settings(configuration), configuration.project
    if settings and project:
        settings = project_keys.as_nodes(settings, project)
    lines = [*_about(configuration), *left_out(configuration)]
    if configuration.status is Status.MEASURED:
        lines.insert(0, Status.MEASURED.value)
    return Snippet(text=as_yaml(settings), comments=tuple(lines))


def _about(configuration: ConfigurationSummary) -> Iterator[str]:
    yield from _of_ranks(configuration)
    still_open = ""
    if configuration.best:
        still_open = answers.what_is_open(configuration.run.result, configuration.best)
    if still_open or configuration.status is not Status.MEASURED:
        yield configuration.conclusion.answer


def _of_ranks(configuration: ConfigurationSummary) -> Iterator[str]:
    ranks = configuration.configuration.ranks
    if ranks > 1:
        yield f"for each of {ranks} ranks"


def left_out(configuration: ConfigurationSummary) -> tuple[str, ...]:
    """Comments on settings that have no key in the project's config; empty without a
    project."""
    settings, project = best_settings(configuration), configuration.project
    if not settings or not project:
        return ()
    return tuple(project_keys.left_out(settings, project))


def overrides_in_place(configuration: ConfigurationSummary) -> str:
    """Writes Hydra overrides with the best settings, with the keys of the config if a
    project was measured."""
    settings, project = best_settings(configuration) or {}, configuration.project
    if project is not None:
        settings = {
            project.keys[name]: value
            for name, value in settings.items()
            if name in project.keys
        }
    return arguments(settings, "++")


def arguments(settings: Settings, mark: str, key: str | None = None) -> str:
    """Writes ``++data.num_workers=4 ...`` for Hydra; with ``--`` arguments of a
    LightningDataModule."""
    prefix = f"{key}." if key else ""
    return " ".join(
        project_keys.override(f"{prefix}{name}", value, mark)
        for name, value in settings.items()
    )


def kwargs(settings: Settings) -> str:
    """Writes ``batch_size=64, num_workers=4, ...`` as in a Python call."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def transformers(settings: Settings) -> str:
    """Writes ``per_device_train_batch_size=64, ...``, keywords of
    transformers.TrainingArguments.

    A prefetch_factor of None, the default, is left out.
    """
    training_arguments = {}
    for name, value in settings.items():
        if name in _TRAINING_ARGUMENTS and value is not None:
            training_arguments[_TRAINING_ARGUMENTS[name]] = value
    return kwargs(training_arguments)


def unknown_to_transformers(settings: Settings) -> Iterator[str]:
    """Comments on settings that TrainingArguments lacks; newer versions have some of
    these settings."""
    unknown = {
        name: value
        for name, value in settings.items()
        if name not in _TRAINING_ARGUMENTS
    }
    if unknown:
        yield f"not an argument of TrainingArguments in every version: {kwargs(unknown)}"


def as_yaml(document: Any) -> str:
    """Writes YAML with the keys in order."""
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
