"""What the HTML report says, and that whatever it says is safe in a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from nws_sweep import cells, formats, html, page
from nws_sweep.page import Page, Table
from nws_sweep.records import SearchRecord, Trial, Verdict
from tests.factories import (
    COLUMNS,
    estimate,
    failed_trial,
    measurement,
    search_result,
    summary_of_grid,
    summary_of_run,
    trial,
)

EVIL = "</script><script>alert('&')</script>"


def grid() -> Page:
    return page.page(
        summary_of_grid(
            search_result(trial(0, 8.0), trial(2, 4.0), failed_trial(4, EVIL), columns={**COLUMNS, "batch_size": 64}),
            search_result(trial(0, 2.0), trial(2, 1.0), columns={**COLUMNS, "batch_size": 128, "dataset": EVIL}),
            search_result(failed_trial(0), columns={**COLUMNS, "batch_size": 256}),
        )
    )


def test_the_answer_of_a_grid_is_the_configuration_with_the_most_samples_per_second() -> None:
    found = grid()
    assert found.answer is not None
    assert found.answer.setting == "num_workers=2"
    assert found.answer.pace == "8200 samples/s, 7.8 ms ±38 % a batch, 1.0 s an epoch"
    assert "batch_size=128" in found.answer.label
    assert found.answer.gains[0] == "2.0x as fast as without workers"
    assert [one.setting for one in found.answers] == ["num_workers=2", "num_workers=2", ""]
    assert found.answers[2].error == "no candidate could be measured"
    assert found.configurations == 3
    nothing = page.page(summary_of_run(search_result(failed_trial(0, "it broke"))))
    assert nothing.answer is None
    assert re.search("Nothing could be measured(?s:.)*it broke", html.report(nothing, ()))


def test_the_figures_are_those_of_the_other_reports() -> None:
    summary = summary_of_run(search_result(trial(0, 8.0), trial(2, 4.0)))
    found = page.page(summary)
    (configuration,) = summary.configurations
    assert found.best == Table(formats.best_header(summary), [formats.best_cells(summary, configuration)])
    shown = [cells.of_trial(each, configuration.configuration) for each in configuration.trials]
    assert [(row[0], row[1], row[4]) for row in found.trials.rows] == [(s.candidate, s.batch, s.epoch) for s in shown]
    assert found.answer is not None
    assert [text for _, text in found.answer.snippets] == [
        formats.render(summary, "kwargs").text.strip(),
        formats.render(summary, "overrides").text.strip(),
    ]


def test_of_many_configurations_the_fastest_are_told_one_by_one() -> None:
    results = [search_result(trial(0, 1.0 + n), columns={**COLUMNS, "batch_size": n + 1}) for n in range(60)]
    found = page.page(summary_of_grid(*results))
    assert len(found.answers) == page.MOST_ANSWERS
    assert found.answers[0].label.endswith("batch_size=1")
    assert len(found.best.rows) == found.configurations == 60
    assert "In detail, the 40 that load the most samples per second" in html.report(found, ())


class Parsed(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_names_from_outside_are_text_only() -> None:
    picture = html.Drawn(title=EVIL, alt=EVIL, svg="<svg></svg>")
    text = html.report(grid(), [picture])
    assert EVIL not in text
    assert "alert(" not in re.sub(r"&lt;/script&gt;&lt;script&gt;alert\(|\\u003cscript\\u003ealert\(", "", text)
    scripts = [attributes.get("type") for tag, attributes in Parsed(text).elements if tag == "script"]
    assert scripts == ["application/json", "application/json", None]


def test_the_page_asks_nobody_for_anything_and_its_references_lead_to_its_elements() -> None:
    elements = Parsed(html.report(grid(), [])).elements
    assert not {"link", "img", "iframe", "form"} & {tag for tag, _ in elements}
    found = {
        name: [attributes[name] for _, attributes in elements if name in attributes]
        for name in ("id", "src", "href", "aria-labelledby", "for", "content")
    }
    assert any((content or "").startswith("default-src 'none'") for content in found["content"])
    assert len(found["id"]) == len({*found["id"]})
    assert {*found["href"]} <= {f"#{name}" for name in found["id"]}
    assert {*found["aria-labelledby"], *found["for"]} <= {*found["id"]}
    assert found["src"] == []


@pytest.mark.parametrize("text", [EVIL, "<!--", "a & b", "\u2028"])
def test_a_table_is_data_that_ends_no_script(text: str) -> None:
    found = replace(grid(), trials=Table(("a",), [[text]]))
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html.report(found, ()))[1:]
    assert not {"<", ">", "&"} & set(data)
    assert json.loads(data) == [[text]]


def sure(record: SearchRecord) -> str:
    (configuration,) = summary_of_run(record).configurations
    return page.certainty(configuration)


def precise(num_workers: int, epoch_s: float, share: float | None = 0.01) -> Trial:
    batch_s = epoch_s / 65
    batch = share and replace(estimate(batch_s), low=batch_s / (1 + share), high=batch_s * (1 + share))
    return trial(num_workers, epoch_s, measurement=measurement(epoch_s, batch_s=batch))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([precise(0, 4.0), precise(2, 2.0), precise(4, 2.5)], "Sure: the nearest other, num_workers=4, takes 25 % l"),
        ([precise(0, 4.0, 0.3), precise(2, 3.5, 0.3)], "Probably (the intervals overlap): the nearest other, num"),
        ([precise(0, 4.0, None), precise(2, 2.0, None)], "Probably (without an interval: too few bursts): the"),
        ([precise(2, 2.02), precise(4, 2.0)], "num_workers=4 takes 1.0 % less time; within 3 % fewer workers are"),
        ([precise(2, 2.0)], "Nothing to compare it with: no other number of workers was measured."),
    ],
)
def test_how_sure_an_answer_is_by_the_intervals(trials: list[Trial], expected: str) -> None:
    assert sure(search_result(*trials)).startswith(expected)


def test_what_makes_an_answer_unsure_comes_first() -> None:
    trials = (precise(0, 4.0), precise(2, 2.0))
    verdict = Verdict(recommended=trials[1].settings, fastest=trials[1].settings)
    provisional = replace(verdict, provisional=True, tied=(trials[0].settings,))
    assert sure(search_result(*trials, verdict=provisional)).startswith("Not sure: the search was ended by its time")
    tied = sure(search_result(*trials, verdict=replace(provisional, provisional=False, settle_s=3.0)))
    assert tied.startswith("Not sure: num_workers=0 may be as good as 2 or better")
    assert sure(search_result(*trials, stop_reason="")) == "Not sure: the search did not finish."
