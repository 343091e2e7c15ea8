"""Writes docs/reference/cli.md from the parsers of the commands and the help of a
search."""

import argparse
import contextlib
import inspect
from collections.abc import Iterator, Mapping
from unittest import mock

from nws_sweep import cli, programs
from nws_sweep.errors import NwsSweepError
from nws_sweep.programs import command
from scripts.pages.reference import ROOT, plain

PAGE = ROOT / "docs" / "reference" / "cli.md"
_INTRODUCTION = """\
# Command line

Every command and option. `nws-sweep` and `python -m nws_sweep` are the same command; without arguments it prints the
commands.

```bash
nws-sweep search train.py
nws-sweep batch_size=64 pin_memory=true
```

`key=value` in place of a command searches: all arguments are then overrides of the
[configuration](config.md), and `-m` makes a grid of all values that are separated by commas.

`autotune`, `explain`, `search` and `watch` run a [program](../guides/programs.md): options of nws_sweep come before it.
All commands have `-q` or `--quiet` and `-v` or `--verbose`, which print [less or
more](../guides/troubleshooting.md#silence-it-or-see-more)."""
_OF_ALL = ("help", "quiet", "verbose")
_SHARED = "## Arguments of several commands"
_STATUS = """\
## Exit status

| status | meaning |
|---|---|
| 0 | everything was measured, or a time limit ended the search with an answer |
| 1 | something failed or was skipped, or an answer is undecided: the report names it and the reason |
| 1 of `search` and `explain` of a program | also: the search failed, or found no DataLoader |
| 1 of `+nws_sweep=search` | the search failed, or found no DataLoader |
| of `autotune` and `watch` | that of the program |
| 1 of `best`, `predict`, `explain DIR` | a configuration has no best setting, no recorded costs or no timed calls |
| 2 of `predict`, `explain DIR` | no configuration has any |
| 1 of `best --format kwargs` and other settings to paste | also: a search was cut short when 0 workers were best |
| 1 of `compare --fail-if` | times changed |
| 2 | the command line, the configuration or a file is wrong: one line on standard error, and nothing is measured |
| 129, 130, 143 | ended by SIGHUP, Ctrl-C or SIGTERM: results so far of a run or a grid are kept and reported |
| 141 | the reader of the output closed the pipe; a search goes on without output |"""


def page() -> str:
    """The page as it must be."""
    parsers = _parsers()
    shared = _shared(parsers)
    sections = [_section(title, *parsers[title], shared) for title in parsers]
    return "\n\n".join([_INTRODUCTION, *sections, _list(shared), _STATUS]) + "\n"


def _parsers() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Of each section: the usage of the command, and its parser."""
    parsers = {name: command.parser_of(name) for name in programs.COMMANDS}
    sections: dict[str, tuple[str, argparse.ArgumentParser]] = {
        name: (_usage(name, parser, options_first=True), parser)
        for name, parser in parsers.items()
    }
    for name in cli.COMMANDS:
        if name not in ("help", "--version"):
            title = f"{name} DIR" if name in programs.COMMANDS else name
            parser = _parser(name)
            sections[title] = (_usage(name, parser, options_first=False), parser)
    return sections


def _usage(name: str, parser: argparse.ArgumentParser, *, options_first: bool) -> str:
    positional = [action for action in _actions(parser) if not action.option_strings]
    words = [
        f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)
        for action in positional
    ]
    options = ["[options]"] * any(action.option_strings for action in _actions(parser))
    words = [*options, *words] if options_first else [*words, *options]
    return " ".join(["nws-sweep", name, *words])


def _shared(
    parsers: Mapping[str, tuple[str, argparse.ArgumentParser]],
) -> dict[str, str]:
    """The arguments that several commands have, with the same words, and these words."""
    arguments = [
        (_name(action), _help(action))
        for _, parser in parsers.values()
        for action in _actions(parser)
    ]
    return {name: text for name, text in arguments if arguments.count((name, text)) > 1}


def _section(
    title: str, usage: str, parser: argparse.ArgumentParser, shared: Mapping[str, str]
) -> str:
    about = plain(inspect.cleandoc(parser.description or ""))
    arguments = {_name(action): _help(action) for action in _actions(parser)}
    rows = [
        f"- `{name}`: {plain(text)}"
        for name, text in arguments.items()
        if shared.get(name) != text
    ]
    known = [
        f"`{name}`" for name, text in arguments.items() if shared.get(name) == text
    ]
    also = [f"- {', '.join(known)}: [below]({_anchor(_SHARED)})"] * bool(known)
    lines = "\n".join([*rows, *also])
    return f"## {title}\n\n{about}\n\n```text\n{usage}\n```\n\n{lines}".rstrip()


def _anchor(title: str) -> str:
    return title.lower().replace("## ", "#").replace(" ", "-")


def _list(shared: Mapping[str, str]) -> str:
    rows = [f"- `{name}`: {plain(text)}" for name, text in shared.items()]
    return "\n".join([f"{_SHARED}\n", *rows])


def _parser(name: str) -> argparse.ArgumentParser:
    """The parser of a command, which is called no further."""
    made: list[argparse.ArgumentParser] = []

    def stop(parser: argparse.ArgumentParser, *_: object) -> None:
        made.append(parser)
        raise NwsSweepError

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", stop),
        contextlib.suppress(NwsSweepError),
    ):
        cli.COMMANDS[name]([])
    return made[0]


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments but for the flags that all commands have."""
    return (action for action in parser._actions if action.dest not in _OF_ALL)


def _name(action: argparse.Action) -> str:
    what = action.metavar or (
        ",".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    return " ".join(
        [*action.option_strings, *([] if action.nargs == 0 else [str(what)])]
    )


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default}


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
