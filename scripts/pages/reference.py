"""Writes docs/reference/config.md from the schema (ranges) and conf/ (values and their
explanations)."""

import inspect
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import nws_sweep
from nws_sweep.config import hydra_versions, schema
from nws_sweep.records import shown

ROOT = Path(__file__).resolve().parent.parent.parent
CONF = ROOT / "conf"
PAGE = ROOT / "docs" / "reference" / "config.md"

_INTRODUCTION = """\
# Configuration reference

Every value and every group of options. `nws-sweep --help` shows the values of this machine.

```bash
nws-sweep -m batch_size=64,256 measure=quick
```"""
_VALUES = """\
## Values

`key=value` sets a value, `-m key=value,value` sweeps it. Each key has its default, and in brackets what is allowed.
Usable CPUs are [those that this process may use](../guides/grids.md#search-and-measuring)."""
_IN_PYTHON = """\
## Defaults that differ in Python

Arguments of `nws_sweep.search`, `sweep` and `tune` have the names and defaults of these keys (`tune` has those of the
search), except for"""
_REASONS = {
    "batch_size": "DataLoader's own default in Python",
    "shuffle": "DataLoader's own default in Python; training shuffles",
    "reuse": "a command is a request to measure; a script calls `search` each time it runs",
}
_GROUPS_TEXT = """\
## Groups

`group=option` chooses a file of `conf/group/`; your own options are files in a folder `group/` of any folder that
`--config-dir` names. `dataset.length=1000` sets a key of an option; `+dataset.NAME=VALUE` adds an argument of its
`_target_`. `experiment=NAME` sets all that a file of `conf/experiment/` says: case studies, which `--help` lists."""
_OF_PROGRAMS = """\
## In another program

Keys that `+nws_sweep=search`, `=autotune` and `=watch` ([Hydra projects](../guides/hydra.md)) add below
`hydra.callbacks.nws_sweep`."""
_PROGRAMS = ("search", "autotune", "watch")

# Groups in the order of the page; hydra/ and paths/ have no options for users, and the
# files of experiment/ are case studies to read.
GROUPS = (
    "dataset",
    "measure",
    "training_step",
    "training_step/model",
)
AXES = tuple(
    f"axis/{name}"
    for name in ("batch_size", "pin_memory", "prefetch_factor", "patience")
)
# The files that explain the values of the schema; the first explanation counts.
_EXPLAINED_IN = ("base.yaml", "paths/default.yaml")

_MISSING = "???"
# Interpolations in words.
_MEANINGS = {
    "${nws_sweep.usable_cpus:${.ranks}}": "the usable CPUs, shared by the ranks"
}
_FROM_ENVIRONMENT = re.compile(r"\$\{oc\.env:(\w+),'?([^'}]*)'?\}")
# XDG_CACHE_HOME is explained where the folders are
_CACHE = re.compile(r"\$\{oc\.env:XDG_CACHE_HOME,'(.*?)'\}")
_ELSEWHERE = re.compile(r"\$\{\.+([\w.]+)\}")
# Parts of a comment that repeat the range of the schema.
_ALLOWED = re.compile(
    r"(an integer|(an integer of )?at least \d+|above 0(, up to 1)?|true or false|0 to 1)$"
)
# Of what a value may be, in the order of replacement.
_SHORTER = {
    r"an integer of at least (\d+)": r"integer ≥ \1",
    r"an integer from (\d+) to (\d+)": r"\1 to \2",
    r"(a|seconds, a) number of at least (\d+)": r"number ≥ \2",
    r"seconds, a number above 0": "number > 0",
    r"a number above 0 and up to 1": "> 0, ≤ 1",
    r"a number from 0 to 1": "0 to 1",
}
_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<rest>.*)")
_COMMENT = re.compile(r"(?:^|\s)# (.*)")


def page() -> str:
    parts = [
        _INTRODUCTION,
        _VALUES,
        *_value_sections(),
        _IN_PYTHON,
        _different_defaults(),
        _GROUPS_TEXT,
    ]
    parts += [_group_section(group) for group in GROUPS]
    parts += [
        "### axis\n\nPresets to sweep: `-m axis/batch_size=small`.\n\n" + _axes(),
        _OF_PROGRAMS,
    ]
    parts += [_programs_table()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _value_sections() -> Iterator[str]:
    values, explained = _defaults(), _explanations()
    permitted = {key: permits.text for key, permits in schema.RANGES.items()} | {
        "services": "a mapping"
    }
    for section in ("", "measure", "paths"):
        keys = [key for key in permitted if key.rpartition(".")[0] == section]
        rows = [
            f"- `{key}` = {_value(values[key])}{_allowed(permitted[key], text)}: {text}"
            for key in keys
            for text in [explanation(explained[key])]
        ]
        about = (
            f"{explained[section][:1].upper()}{explained[section][1:]}.\n\n"
            if section in explained
            else ""
        )
        text = "\n".join(rows)
        yield f"### {section or 'the top level'}\n\n{about}{text}"


def _allowed(permitted: str, explained: str) -> str:
    """What a value may be, in fewer words than messages have, unless the explanation
    has all of it."""
    if all(word in explained for word in permitted.split(" or ")):
        return ""
    for words, short in _SHORTER.items():
        permitted = re.sub(words, short, permitted)
    return f" ({plain(permitted)})"


def _different_defaults() -> str:
    values, rows = _defaults(), []
    for name, parameter in inspect.signature(nws_sweep.search).parameters.items():
        default = (
            list(parameter.default)
            if isinstance(parameter.default, tuple)
            else parameter.default
        )
        is_equal = (
            default in (None, parameter.empty)
            or name not in values
            or values[name] == default
        )
        if not is_equal:
            rows.append(
                [f"`{name}`", _value(values[name]), f"`{default!r}`", _REASONS[name]]
            )
    return table(["key", "command line", "Python", "why"], rows)


def _defaults() -> dict[str, Any]:
    """The unresolved values of ``python -m nws_sweep`` by dotted key."""
    schema.register()
    with initialize_config_dir(config_dir=str(CONF), **hydra_versions.BASE):
        composed = OmegaConf.to_container(compose("config"), resolve=False)
    assert isinstance(composed, dict)
    return dict(_flat({str(key): value for key, value in composed.items()}))


def _explanations() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _EXPLAINED_IN:
        group = name.rpartition("/")[0]
        for key, text in comments((CONF / name).read_text("utf-8")).items():
            found.setdefault(f"{group}.{key}" if group else key, text)
    return found


def _flat(
    values: Mapping[str, Any], explained: Collection[str] = (), prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Values by dotted key; a node with a ``_target_`` is one value unless its keys are
    explained."""
    for name, value in values.items():
        key = f"{prefix}{name}"
        opened = isinstance(value, dict) and value
        if opened and (
            "_target_" not in value
            or any(other.startswith(f"{key}.") for other in explained)
        ):
            yield from _flat(value, explained, f"{key}.")
        else:
            yield key, value


def _group_section(group: str) -> str:
    """The options of a group with the values that they set, then the values that they
    explain."""
    options: list[str] = []
    keys_with: dict[tuple[str, str], dict[str, list[str]]] = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        values, name = list(_values_of(group, path)), f"`{path.stem}`"
        sets = ", ".join(
            f"`{key}={_value(value)[1:-1]}`"
            for key, value, text in values
            if not text and not isinstance(value, dict)
        )
        about = plain(header(path.read_text("utf-8")))
        options.append(f"- {name}: {about}{f'. Sets {sets}' if sets else ''}")
        for key, value, text in values:
            if text:
                words = plain(_spelt(text.replace("; must be given", "")))
                same = keys_with.setdefault((_value(value), words), {})
                same.setdefault(key, []).append(name)
    keys = [
        f"- {_of_options(names)} = {value}: {words}"
        for (value, words), names in keys_with.items()
    ]
    parts = [f"### {group}\n", *options]
    return "\n".join([*parts, "\nKeys:\n", *keys] if keys else parts)


def _of_options(names: Mapping[str, Sequence[str]]) -> str:
    """Keys, each with the options that have it."""
    return ", ".join(
        f"`{key}` of {', '.join(options)}" for key, options in names.items()
    )


def _values_of(group: str, path: Path) -> Iterator[tuple[str, Any, str]]:
    """Keys, values and explanations of an option; the explanation is empty if the
    schema has one."""
    text = path.read_text("utf-8")
    under = (
        "" if text.startswith("# @package _global_") else group.replace("/", ".") + "."
    )
    explained, usual = comments(text), _explanations()
    values = {
        name: value
        for name, value in (yaml.safe_load(text) or {}).items()
        if name not in ("defaults", "hydra")
    }
    for key, value in _flat(values, explained):
        if not key.endswith(("_target_", "_partial_")) or value == _MISSING:
            yield (
                f"{under}{key}",
                value,
                "" if f"{under}{key}" in usual else explained.get(key, ""),
            )


def _axes() -> str:
    rows = []
    for group in AXES:
        options = []
        for path in sorted((CONF / group).glob("*.yaml")):
            ((_, value),) = yaml.safe_load(path.read_text("utf-8")).items()
            options.append(f"`{path.stem}` ({value})")
        rows.append(f"- `{group}`: {', '.join(options)}")
    return "\n".join(rows)


def _programs_table() -> str:
    """The keys of callbacks, but for those of a search that are the top level's."""
    usual, same = _defaults(), []
    programs_of: dict[tuple[str, str, str], list[str]] = {}
    for name in _PROGRAMS:
        for key, value, text in _program_keys(name):
            if name == "search" and key in usual and usual[key] == value:
                same.append(f"`{key}`")
            else:
                programs_of.setdefault((key, _value(value), text), []).append(name)
    rows = [
        [f"`{key}`", ", ".join(names), value, text]
        for (key, value, text), names in programs_of.items()
    ]
    as_above = (
        f"`search` also has {', '.join(same)}, as at the [top level](#the-top-level)."
    )
    return f"{table(['key', 'of', 'default', 'what it is'], rows)}\n\n{as_above}"


def _program_keys(name: str) -> Iterator[tuple[str, Any, str]]:
    text = (CONF / f"{name}.yaml").read_text("utf-8")
    values = yaml.safe_load(text)["hydra"]["callbacks"]["nws_sweep"]
    keys = {
        key.rpartition(".")[2]: explanation(comment)
        for key, comment in comments(text).items()
    }
    for key, value in values.items():
        if key in keys:
            yield key, value, keys[key]


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def comments(text: str) -> dict[str, str]:
    """The comments of a YAML file by dotted key."""
    found: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        if not (match := _KEY.match(line)):
            continue
        indent = len(match["indent"])
        stack = [(depth, key) for depth, key in stack if depth < indent] + [
            (indent, match["key"])
        ]
        if comment := _COMMENT.search(match["rest"]):
            found[".".join(key for _, key in stack)] = comment[1]
    return found


def header(text: str) -> str:
    """The comment at the top of a YAML file as one line."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(
        line.removeprefix("# ") for line in lines if not line.startswith("# @package")
    ).rstrip(".")


def explanation(comment: str) -> str:
    """A comment without the parts that repeat the range."""
    return plain(
        _spelt(
            "; ".join(part for part in comment.split("; ") if not _ALLOWED.match(part))
        )
    )


def _spelt(text: str) -> str:
    """Replaces a leading unit sign by its name."""
    return re.sub(r"^s(?=[ ,])", "seconds", text)


def plain(text: str) -> str:
    """Escapes characters of emphasis in Markdown."""
    return re.sub(r"\*|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text)


def _value(value: Any) -> str:
    """A value as the user types it, or in words."""
    if isinstance(value, dict):
        return (
            f"a `{value['_target_'].rpartition('.')[2]}`"
            if "_target_" in value
            else f"`{value}`"
        )
    if value == _MISSING:
        return "must be given"
    text = shown(value)
    if text in _MEANINGS:
        return _MEANINGS[text]
    if match := _FROM_ENVIRONMENT.fullmatch(_CACHE.sub(r"\1", text)):
        return f"`{match[2]}`, or the variable `{match[1]}`"
    if match := _ELSEWHERE.fullmatch(text):
        return f"that of `{match[1]}`"
    return f"`{text}`"


def main() -> None:
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
