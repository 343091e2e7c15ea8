import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import (
    Browser,
    Dialog,
    Locator,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests import conftest, sample_pages
from tests.sample_pages import EVIL, PAGES

# One process makes the pages and starts the browser, for all tests.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

Opener = Callable[..., Page]
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
DESKTOP, PHONE = (
    ViewportSize(width=1280, height=800),
    ViewportSize(width=390, height=844),
)
AXE = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
WAIT_MS = 30_000
STAYS = "window.setTimeout = () => 0"  # keeps messages that vanish after 2 s
# Without more rows of the same kind: seconds less.
CHECKED = """async () => {
  const same = "tbody tr:nth-child(n + 6), details:nth-of-type(n + 6)";
  for (const each of document.querySelectorAll(same)) each.remove();
  const found = await axe.run(document, { preload: false, resultTypes: ["violations"] });
  return [found.passes.length, found.violations.map((one) => [one.id, one.impact, one.nodes[0].html])];
}"""
OPENED = "for (const each of document.querySelectorAll('details')) each.open = true"
DRAWN = '[...document.querySelectorAll("figure img")].filter((each) => each.complete && each.naturalWidth > 100).length'
CUT = """[...document.querySelectorAll(".scroll")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.ariaLabel)"""
COPIED = 'document.addEventListener("copy", () => { window.copied = String(getSelection()); });'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        conftest.lacking("chromium", script="scripts/setup-browser")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[*flags, "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in PAGES.items()}


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Iterator[Opener]:
    """Fails on console messages and on dialogs."""
    said: list[str] = []

    def refused(dialog: Dialog) -> None:
        said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def opener(name: str, viewport: ViewportSize = DESKTOP, **options: Any) -> Page:
        page = browser.new_context(viewport=viewport, **options).new_page()
        page.set_default_timeout(WAIT_MS)
        page.on(
            "console", lambda message: said.append(f"{message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", refused)
        page.goto(pages[name].as_uri())
        return page

    yield opener
    assert said == []
    for context in browser.contexts:
        context.close()


def texts(table: Locator, column: int) -> list[str]:
    return table.locator(f"tbody td:nth-child({column + 1})").all_text_contents()


def number(text: str) -> float:
    """The first number of a cell, scaled by its unit."""
    scales = {
        "µs": 1e-6,
        "ms": 1e-3,
        "min": 60.0,
        "h": 3600.0,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
    }
    found = re.match(r"([\d.]+)x? ?(\S*)", text)
    assert found
    return float(found[1]) * scales.get(found[2], 1.0)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone_and_shows_its_pictures(
    opened: Opener, name: str
) -> None:
    page = opened(name, PHONE)
    for wide in (390, 320, 1280):
        page.set_viewport_size({"width": wide, "height": 844})
        assert page.evaluate("document.scrollingElement.scrollWidth") <= wide
    pictures = page.evaluate(DRAWN)
    assert pictures == page.locator("figure").count()
    assert (pictures == 0) == (name == "failed")
    page.evaluate(OPENED)
    for wide in (390, 1400):
        page.set_viewport_size({"width": wide, "height": 844})
        for picture in page.locator("figure img").all():
            box = picture.bounding_box()
            assert box
            assert 0 <= box["x"] <= box["x"] + box["width"] <= wide


@pytest.mark.parametrize("name", [name for name in PAGES if name != "grid_of_4"])
def test_no_table_is_cut_on_a_wide_page(opened: Opener, name: str) -> None:
    page = opened(name, {"width": 1400, "height": 900})
    page.evaluate(OPENED)
    assert page.evaluate(CUT) == []


def test_an_answer_is_what_is_seen_first_and_the_rest_is_folded(
    opened: Opener,
) -> None:
    page = opened("grid_of_datasets")
    shown = page.locator("main h2, main h3").all()
    assert [one.text_content() for one in shown if one.is_visible()] == [
        "The fastest settings for each dataset and batch size",
        "Best settings",
        "More pictures",
        "Each combination",
        "All measurements",
        "Host and method",
    ]
    cards = page.locator(".card .label").all_text_contents()
    assert cards == [
        f"dataset={name}, batch_size={size}"
        for name in ("photos", "objects", "tensors")
        for size in (64, 256)
    ]
    assert [one.is_visible() for one in page.locator("figure").all()] == [True, False]


@pytest.mark.extended
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(opened: Opener, name: str) -> None:
    if not AXE.is_file():
        conftest.lacking("axe-core", script="scripts/setup-browser")
    page = opened(name)
    page.evaluate(AXE.read_text("utf-8"))
    page.evaluate(OPENED)
    for viewport, scheme in itertools.product((DESKTOP, PHONE), SCHEMES):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)
        passed, violations = page.evaluate(CHECKED)
        assert violations == [], (scheme, viewport)
        assert passed > 20


def test_numbers_are_sorted_as_numbers_what_is_missing_comes_last_and_texts_as_texts(
    opened: Opener,
) -> None:
    page = opened("grid_of_200")
    table = page.locator("#best-table")
    names = table.locator("thead th").all_text_contents()
    table.get_by_role("button", name="Show more").click()
    for name in ("batch_size", "samples/s", "per batch", "epoch", "vs 0 workers"):
        for falling in (False, True):
            table.get_by_role("button", name=name).dispatch_event("click")
            found = [number(text) for text in texts(table, names.index(name))]
            assert found == sorted(found, reverse=falling)
            assert len(found) == 200
            head = table.locator("thead th").nth(names.index(name))
            assert head.get_attribute("aria-sort") == (
                "descending" if falling else "ascending"
            )
    page = opened("grid_of_4")
    page.evaluate(OPENED)
    for _ in range(2):
        page.locator("#trials-table").get_by_role(
            "button", name="samples/s"
        ).dispatch_event("click")
        assert [text == "-" for text in texts(page.locator("#trials-table"), 3)] == [
            False
        ] * 15 + [True] * 2
    for step in (1, -1):
        page.locator("#best-table").get_by_role("button", name="dataset").click()
        # "/" before "<", as dictionaries have it
        in_order = [sample_pages.LONG, EVIL, "arrays", "photos"]
        assert texts(page.locator("#best-table"), 0) == in_order[::step]


def test_rows_are_filtered_by_words_and_more_are_shown_on_request(
    opened: Opener,
) -> None:
    page = opened("grid_of_200")
    page.evaluate(OPENED)
    table = page.locator("#trials-table")
    words, count, more = (
        table.get_by_label("Filter"),
        table.locator(".count"),
        table.locator(".more"),
    )
    assert count.text_content() == "25 of 400 rows"
    words.fill("BATCH_SIZE=1 s")
    # 1, 10 to 19 and 100 to 199
    assert count.text_content() == "25 of 222 rows, filtered from 400"
    more.click()
    rows = table.locator("tbody tr")
    assert (rows.count(), more.is_visible()) == (222, False)
    words.fill("no such words")
    assert (rows.count(), more.is_visible()) == (0, False)
    assert count.text_content() == "none of 400 rows has all these words"
    words.fill("")
    assert count.text_content() == "25 of 400 rows"
    while more.is_visible():
        more.click()
    assert rows.count() == 400


@pytest.mark.parametrize("how", ["clipboard", "execCommand", "selection"])
def test_settings_are_copied_by_the_means_of_the_browser(
    opened: Opener, how: str
) -> None:
    page = opened("run", permissions=["clipboard-read", "clipboard-write"])
    page.evaluate(STAYS)
    if how != "clipboard":
        page.evaluate(
            "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
        )
    if how == "selection":
        page.evaluate("document.execCommand = () => false")
    page.evaluate(COPIED)
    for snippet in page.locator(".card .snippet").all():
        snippet.get_by_role("button").click()
        expect(snippet.get_by_role("button")).to_contain_text(
            "Press Ctrl+C" if how == "selection" else "Copied"
        )
        if how == "selection":
            page.keyboard.press("Control+c")
        copied = page.evaluate(
            "navigator.clipboard.readText()" if how == "clipboard" else "copied"
        )
        assert copied == snippet.locator("code").text_content()
    said = "Press Ctrl\\+C" if how == "selection" else "Copied"
    expect(page.locator("#said")).to_have_text(
        re.compile(f"{said} the Hydra overrides settings of")
    )


def test_printing_shows_everything_and_the_page_follows_the_colours_of_the_browser(
    opened: Opener,
) -> None:
    page = opened("grid_of_200")
    page.locator("summary").first.click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("#trials-table tbody tr").count() == 400
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 1
    assert page.locator("#trials-table tbody tr").count() == 25
    for scheme, paper in zip(
        SCHEMES, ("rgb(255, 255, 255)", "rgb(20, 22, 26)"), strict=True
    ):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    page.emulate_media(media="print", color_scheme="dark")
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert not page.locator(".copy").first.is_visible()


def test_the_answer_is_visible_at_once_even_without_scripts(opened: Opener) -> None:
    for scripts in (True, False):
        page = opened("grid_of_4", PHONE, java_script_enabled=scripts)
        for part in (".label", ".setting", ".snippet code"):
            box = page.locator(f".card {part}").first.bounding_box()
            assert box
            assert box["y"] + box["height"] <= PHONE["height"] * 0.7
        assert page.locator("noscript p").count() == (0 if scripts else 2)
        assert page.locator(".card .copy").first.is_visible() == scripts
