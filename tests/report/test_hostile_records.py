"""Folders from others: whatever the texts of a record are, nothing that is pasted,
opened or printed obeys them."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from nws_sweep import cli
from nws_sweep.config import hydra_versions
from nws_sweep.config.project_keys import override
from nws_sweep.records import LoaderSettings, ProjectFacts, SearchRecord, storage
from nws_sweep.report import formats, page, writer
from tests.factories import (
    FACTS,
    HOST,
    configuration,
    failed_trial,
    loader_settings,
    search_result,
    store_grid,
    store_run,
    summary_of_grid,
    summary_of_run,
    trial,
)

HOSTILE = (
    "x hydra.callbacks.x._target_=shutil.copyfile",
    "x\n++hydra.run.dir=/etc",
    "$(touch y)`id`;reboot",
    "'a' \"b\" \\' \\",
    "${oc.env:HOME}",
    "a,b",
    "[1,2]{c:d}",
    "null",
    "1e3",
    "--help",
    "*?[a]",
    "",
)
EVIL = (
    "a](http://evil.org) ![b](http://evil.org) <script>alert(1)</script> |\\| c\n\n# d\nhydra: {run: {dir: /etc}}\n"
    "\r\u2028\x1b]52;c;aGk=\x07\x1b[31m\x9b31m\u202e $(id) `id` ${oc.env:HOME} 'q' \"r\" ]: http://evil.org"
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]")
SETTINGS = loader_settings(
    4, pin_memory=True, multiprocessing_context="forkserver", timeout=1e-05
)
PROJECT = ProjectFacts(
    keys={"num_workers": "data.0.num_workers.train", "pin_memory": "pin_memory"}
)


def record(
    text: str,
    *,
    best: bool = True,
    project: ProjectFacts | None = None,
    columns: Mapping[str, Any] | None = None,
) -> SearchRecord:
    """A record with this text wherever it may have any."""
    facts = replace(
        FACTS, type=text, handles=(text,), generators=(text,), project=project
    )
    measured = trial(4, 16.0, settings=SETTINGS, notes=(text,), warnings=(text,))
    return search_result(
        *([measured] if best else []),
        failed_trial(0, text),
        configuration=configuration(
            {"dataset": text, **(columns or {})}, dataset={"_target_": text, text: text}
        ),
        facts=replace(facts, loader=LoaderSettings(batch_size=8)),
        host=replace(HOST, hostname=text, cpu_model=text),
        stop_reason=text if best else "",
        error="" if best else text,
    )


@pytest.mark.parametrize("value", [*HOSTILE, 4, 1e-05, -0.5, True, None, "forkserver"])
def test_an_override_is_one_word_of_a_shell_with_one_key_and_one_value(
    value: Any,
) -> None:
    (word,) = shlex.split(override("data.x", value))
    parsed = OverridesParser.create().parse_override(word)
    assert (parsed.key_or_group, parsed.is_sweep_override()) == ("data.x", False)
    with initialize_config_dir(str(Path.cwd()), **hydra_versions.BASE):
        assert OmegaConf.to_container(compose(overrides=[word]), resolve=True) == {
            "data": {"x": value}
        }


@pytest.mark.parametrize("project", [None, PROJECT])
def test_overrides_of_a_record_need_no_quotes(project: ProjectFacts | None) -> None:
    """In ``$(nws-sweep best DIR --format overrides)`` a shell would keep quotes, and
    expand patterns."""
    summary = summary_of_run(record(EVIL, project=project))
    places = (
        project.keys
        if project
        else {
            name: name
            for name in formats.best_settings(summary.configurations[0]) or ()
        }
    )
    (code,) = re.findall(
        r"Hydra overrides</span><code>(.*?)</code>", page.report(summary, []), re.DOTALL
    )
    text = formats.render(summary, "overrides").text
    assert code == text.strip(), "the page shows the same"
    for form in ("overrides", "lightning"):
        assert re.fullmatch(
            r"(?:[\w.=+-]+[ \n])+", formats.render(summary, form).text, re.ASCII
        )
    parsed = OverridesParser.create().parse_overrides(text.split())
    values = {place: getattr(SETTINGS, name) for name, place in places.items()}
    assert {one.key_or_group: one.value() for one in parsed} == values


@pytest.mark.parametrize("project", [None, PROJECT])
def test_best_yaml_holds_the_settings_only(
    tmp_path: Path, project: ProjectFacts | None
) -> None:
    unfinished = replace(record(EVIL, project=project), stop_reason="", error=EVIL)
    folder = store_run(tmp_path, unfinished)
    (folder / "best.yaml").write_text(
        formats.render(summary_of_run(unfinished), "yaml").file
    )
    with initialize_config_dir(str(folder), **hydra_versions.BASE):
        composed = compose("best")
    expected = formats.best_settings(summary_of_run(unfinished).configurations[0])
    placed = {"data": {"0": {"num_workers": {"train": 4}}}, "pin_memory": True}
    assert composed == (placed if project else expected)


def test_formats_of_data_are_read_back() -> None:
    summary = summary_of_grid(record(EVIL), record("b", best=False))
    columns = [one.configuration.columns for one in summary.configurations]
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        found = read(formats.render(summary, form).text)
        assert [one["configuration"] for one in found] == [
            {**one, "dataset": one["dataset"]} for one in columns
        ]
    kwargs = formats.render(summary_of_run(record(EVIL)), "kwargs").text
    assert eval(f"dict({kwargs})") == formats.best_settings(
        summary_of_run(record(EVIL)).configurations[0]
    )


def test_pages_have_no_more_lines_links_and_elements_than_with_harmless_texts() -> None:
    def pages(text: str) -> tuple[str, str]:
        summary = summary_of_grid(
            record(text, columns={"a.b": 1}),
            record(text, best=False, columns={"a.b": text}),
        )
        return page.markdown(summary), page.report(summary, [])

    (evil, evil_page), (harmless, harmless_page) = pages(EVIL), pages("harmless")
    assert len(evil.splitlines()) == len(harmless.splitlines())
    assert re.findall(r"(?<!\\)[\[\]]|<", evil) == re.findall(
        r"(?<!\\)[\[\]]|<", harmless
    )
    bars = [
        len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))
        for line in evil.splitlines()
        if line.startswith("| ")
    ]
    assert bars == [
        line.count("|") for line in harmless.splitlines() if line.startswith("| ")
    ]
    assert re.findall(r"<\w+", evil_page) == re.findall(r"<\w+", harmless_page)
    assert not CONTROLS.search(evil + evil_page.replace("\r", ""))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "command",
    [
        ("best",),
        *(("best", "--format", form) for form in ("json", "yaml")),
        ("report",),
        ("explain",),
        ("predict",),
    ],
)
def test_no_control_character_reaches_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    folder = store_grid(tmp_path, record(EVIL), record("b", best=False))
    cli.run([*command, str(folder)])
    cli.run(["compare", str(folder), str(folder)])
    captured = capsys.readouterr()
    assert "evil.org" in captured.out + captured.err
    assert not CONTROLS.search(captured.out + captured.err)


@pytest.mark.usefixtures("undrawn")
def test_a_report_writes_nothing_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, elsewhere = (
        store_grid(tmp_path, search_result(trial(0, 8.0))),
        tmp_path / "elsewhere",
    )
    elsewhere.mkdir()
    plots = folder / "plots"
    for target in (elsewhere, tmp_path / "missing"):
        plots.symlink_to(target)
        assert cli.run(["report", str(folder)]) == 2
        line = f"nws_sweep: {plots}: a link to {target}, out of the folder; remove it\n"
        assert capsys.readouterr().err == line
        plots.unlink()
    assert [*elsewhere.iterdir()] == []
    (folder / "inside").mkdir()
    plots.symlink_to(folder / "inside")
    writer.write(folder)


@pytest.mark.usefixtures("undrawn")
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe has no end."""
    folder = store_grid(tmp_path, search_result(trial(0, 8.0)))
    (run,) = (path.parent for path in folder.rglob(storage.RESULT))
    for name in (storage.BATCHES, storage.COSTS):
        (run / name).unlink()
        os.mkfifo(run / name)
    (folder / "best").mkdir()
    os.mkfifo(folder / "best" / "old.yaml")
    os.mkfifo(folder / storage.RESULT)
    assert cli.run(["report", str(folder)]) == 1
    assert (
        f"{folder}/result.json: cannot be read (OSError(22, 'not a regular file'))"
        in capsys.readouterr().out
    )


def test_a_text_that_is_none_is_written_as_a_question_mark(tmp_path: Path) -> None:
    """Names of files may hold any bytes, of which Python makes surrogates; JSON could
    not be read back."""
    folder = store_run(
        tmp_path,
        search_result(
            failed_trial(0, "no file \udce9"), columns={"dataset.root": "\udce9"}
        ),
    )
    (run,) = storage.find(folder).runs
    assert (
        run.result.trials[0].reason,
        run.result.configuration.columns["dataset.root"],
    ) == ("no file ?", "?")
