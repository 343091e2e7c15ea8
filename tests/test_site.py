import functools
import http.server
import itertools
import subprocess
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests import conftest
from tests.conftest import ROOT
from tests.report.test_browser import AXE, DESKTOP, PHONE, SCHEMES, WAIT_MS, browser

pytestmark = [
    pytest.mark.extended,
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
]
__all__ = ["browser"]  # a fixture

PAGES = [
    "index",
    "get-started/command-line",
    "understand/measuring",
    "reference/api",
    "reference/config",
    "project/contributing",
    "evidence",
    "experiments",
]
VIOLATIONS = """async () => {
  const found = await axe.run(document, { preload: false, resultTypes: ["violations"] });
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  return serious.map((one) => [one.id, one.nodes[0].html]);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built in strict mode."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [ROOT / "scripts" / "docs", "build", "--site-dir", folder],
        check=True,
        timeout=300,
    )
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """Fails on console errors and on requests to another host."""
    said: list[str] = []
    context = browser.new_context(viewport=DESKTOP)
    one = context.new_page()
    one.set_default_timeout(WAIT_MS)
    one.on(
        "console",
        lambda message: said.append(message.text) if message.type == "error" else None,
    )
    one.on("pageerror", lambda error: said.append(str(error)))
    own = (site, "data:", "blob:")
    one.on(
        "request",
        lambda request: (
            None if request.url.startswith(own) else said.append(request.url)
        ),
    )
    yield one
    context.close()
    assert said == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_and_can_be_read_by_all(
    page: Page, site: str, name: str
) -> None:
    if not AXE.is_file():
        conftest.lacking("axe-core", script="scripts/setup-browser")
    page.goto(f"{site}/{name}.html")
    page.evaluate(AXE.read_text("utf-8"))
    for viewport, scheme in itertools.product((DESKTOP, PHONE), SCHEMES):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)
        assert (
            page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
        )
        assert page.evaluate(VIOLATIONS) == [], (viewport, scheme)
