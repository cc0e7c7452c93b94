"""The page in headless Chromium with the network off: charts, figures, switches, phone, paper and accessibility."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fasthop.measure.run import Result
from fasthop.report.figures import number, size
from fasthop.report.report import Report
from tests.report import page_results, results

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; apt-get install chromium")
SERIOUS = ("serious", "critical")
CHARTS = ("time", "memory", "curves", "stages", "kinds", "roofline")


@dataclass
class Shown:
    """A page in the browser, with what it complained of and what it asked for."""

    page: Any
    result: dict[str, Any]
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Waits until every chart that is shown has been drawn in the colours of now."""
        self.page.wait_for_function(
            "() => document.documentElement.dataset.ready && [...document.querySelectorAll('.chart')].every("
            "c => !c.clientWidth || (c.querySelector('svg') && c.dataset.drawn === document.documentElement.dataset.shade))"
        )

    def press(self, lang: str, kind: str, value: str) -> None:
        self.page.click(f'[data-language="{lang}"] button[data-set-{kind}="{value}"]')
        self.settle()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Root has no sandbox; the pages are our own.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def shown(result: Result, lang: str = "en", width: int = 1100, **options: Any) -> Shown:
        Report(result).save(tmp_path / "run", lang)
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        found = Shown(page, json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8")))
        page.on("console", lambda message: found.complaints.append(message.text))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("dialog", lambda dialog: found.complaints.append(dialog.message) or dialog.dismiss())
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto((tmp_path / "run" / "report.html").as_uri())
        found.settle()
        return found

    yield shown
    for context in contexts:
        context.close()


def serious(page: Any) -> list[str]:
    """What axe finds that is serious, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    found = axe.run(page).response["violations"]
    return [
        f"{entry['id']}: {entry['nodes'][0]['html'][:200]}" for entry in found if entry["impact"] in SERIOUS
    ]


def scrolls(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize("kind", sorted({**results.ALL, "full": 0, "hostile": 0}))
def test_it_opens_without_a_network_and_without_a_complaint(kind, show):
    made = {**results.ALL, "full": page_results.full, "hostile": page_results.hostile}[kind]()
    shown = show(made)
    assert shown.requests == [shown.page.url]
    for theme in ("dark", "light"):
        shown.press("en", "theme", theme)
    shown.press("en", "lang", "zh")
    assert shown.complaints == []
    assert shown.requests == [shown.page.url]


def test_every_chart_is_drawn_with_a_mark_for_every_figure(show):
    shown = show(page_results.full())
    count = "k => document.querySelectorAll(`#en-chart-${k} [role='graphics-symbol'][aria-label]`).length"
    marks = {key: shown.page.evaluate(count, key) for key in CHARTS}
    timed = [entry for entry in shown.result["recipes"] if entry["time_per_epoch_ms"]]
    assert marks["time"] == len(timed)
    assert marks["roofline"] == 2
    assert marks["kinds"] == sum(len(entry["memory_kinds"] or {}) for entry in timed)
    assert min(marks.values()) > 0


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hovering_shows_the_figures_of_the_result(lang, show):
    shown = show(page_results.full(), lang)
    tip = shown.page.locator("#tip")
    assert not tip.is_visible()
    for chart, figure in (
        ("time", lambda entry: number(entry["time_per_epoch_ms"]["median"])),
        ("memory", lambda entry: size(entry["peak_bytes"])),
    ):
        marks = shown.page.locator(f"#{lang}-chart-{chart} [role='graphics-symbol'][aria-label]")
        for place, entry in enumerate(shown.result["recipes"][:4]):
            marks.nth(place).hover()
            assert tip.is_visible()
            assert entry["name"] in tip.inner_text()
            assert figure(entry) in tip.inner_text()


def test_the_keyboard_reaches_the_same_figures(show):
    shown = show(page_results.full())
    page = shown.page
    page.focus("#en-chart-time")
    said = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "End", "Home"):
        page.keyboard.press(key)
        said.append(page.locator("#live").inner_text())
        assert page.locator("#tip").inner_text().replace("\n", " ") == said[-1]
    names = [entry["name"] for entry in shown.result["recipes"]]
    order = [names[0], names[1], names[2], names[1], names[3], names[0]]
    assert [text.partition(":")[0] for text in said] == order
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    table = page.locator("figure[data-figure='time'] table").first
    assert table.is_visible()
    assert number(shown.result["recipes"][0]["time_per_epoch_ms"]["median"]) in table.inner_text()


def test_the_ladder_switches_to_time_to_accuracy(show):
    shown = show(page_results.full())
    assert not shown.page.locator("#en-chart-to_accuracy").is_visible()
    shown.page.check("[data-language='en'] input[value='to_accuracy']")
    shown.settle()
    assert shown.page.locator("#en-chart-to_accuracy svg").is_visible()
    assert not shown.page.locator("#en-chart-time").is_visible()


def test_language_and_colours_switch(show):
    shown = show(page_results.full(), color_scheme="dark")
    page = shown.page
    ground = "getComputedStyle(document.body).backgroundColor"
    label = "document.querySelector('#en-chart-time .role-axis-label text').getAttribute('fill')"
    dark = page.evaluate(ground), page.evaluate(label)
    shown.press("en", "theme", "light")
    light = page.evaluate(ground), page.evaluate(label)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark[0] != light[0]
    assert dark[1] != light[1]
    shown.press("en", "theme", "auto")
    assert page.evaluate(ground) == dark[0]
    page.emulate_media(color_scheme="light")
    shown.settle()
    assert page.evaluate(ground) == light[0]
    shown.press("en", "lang", "zh")
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert "优化" in page.title()
    assert page.locator("h1:visible").inner_text() == page.title()
    assert page.locator("#zh-chart-time svg").is_visible()
    assert not page.locator("#en-chart-time").is_visible()
    shown.press("zh", "lang", "en")
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("kind", ["full", "hostile", "large"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_phone_scrolls_one_way_only(kind, lang, show):
    made = {"full": page_results.full, "hostile": page_results.hostile, "large": results.large}[kind]()
    shown = show(made, lang, width=390)
    assert not scrolls(shown.page)
    for details in shown.page.locator(f"[data-language={lang}] summary:visible").all():
        details.click()
    assert not scrolls(shown.page)
    charts = shown.page.locator(f"[data-language={lang}] .chart svg:visible").all()
    assert charts
    for chart in charts:
        assert chart.bounding_box()["width"] <= 390 - 32


@pytest.mark.parametrize("width", [1100, 390])
def test_axe_finds_nothing_serious(width, show):
    shown = show(page_results.full(), width=width)
    for theme in ("light", "dark"):
        shown.press("en", "theme", theme)
        assert serious(shown.page) == []
    for details in shown.page.locator("[data-language=en] summary:visible").all():
        details.click()
    assert serious(shown.page) == []
    shown.press("en", "lang", "zh")
    assert serious(shown.page) == []


def test_on_paper_it_is_light_without_controls_and_with_the_tables(show, tmp_path):
    shown = show(page_results.full(), color_scheme="dark")
    page = shown.page
    page.emulate_media(media="print")
    shown.settle()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".controls").first.is_visible()
    ink = page.evaluate("document.querySelector('#en-chart-time .role-axis-label text').getAttribute('fill')")
    assert ink == page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--faint').trim()"
    )
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("figure[data-figure='time'] table").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("figure[data-figure='time'] table").first.is_visible()
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")


def test_without_scripts_the_tables_are_there(show):
    shown = show_without_scripts(show)
    assert shown.locator("noscript").first.is_visible()
    shown.locator("summary:visible").first.click()
    assert shown.locator("figure[data-figure='time'] table").first.is_visible()


def show_without_scripts(show: Any) -> Any:
    """The page of a browser with JavaScript off, which has no chart to wait for."""
    shown = show(page_results.full())
    context = shown.page.context.browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(shown.page.url)
    return page
