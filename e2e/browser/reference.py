"""Tests: the reference of the API at /docs, as people see it."""
import pytest

WIDTHS = (320, 768, 1440)


@pytest.fixture
def page(world):
    page = world.open(f"{world.server}/docs")
    page.wait("getComputedStyle(document.body).display === 'grid'", what="the style sheet")
    return page


def test_nothing_comes_from_elsewhere_and_no_script_runs(page, world):
    loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert loaded and all(one.startswith(f"{world.server}/assets/") for one in loaded), loaded
    assert page.evaluate("document.scripts.length + document.querySelectorAll('[style], style, iframe, form').length") == 0


def test_every_entry_of_the_contents_leads_to_its_part(page):
    wrong = page.evaluate("""
        [...document.querySelectorAll('nav a')].filter((link) => {
          const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
          return !target?.querySelector('h2, h3');
        }).map((link) => link.textContent)""")
    assert wrong == []
    assert page.evaluate("document.querySelectorAll('nav li li a').length === document.querySelectorAll('.operation').length")
    page.click("nav a[href='#createNotification']")
    page.wait("Math.abs(document.querySelector('#createNotification').getBoundingClientRect().top) < 100", what="the operation on top")
    assert page.evaluate("document.querySelector('#createNotification h3').textContent") == "POST /notifications"


@pytest.mark.parametrize("width", WIDTHS)
def test_no_width_needs_scrolling_sideways(page, width):
    page.size(width, 800)
    page.wait(f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}")


def test_it_is_light_and_dark(page):
    colours = {}
    for theme in ("light", "dark"):
        page.theme(theme)
        colours[theme] = page.evaluate("""
            ['backgroundColor', 'color'].map((name) => getComputedStyle(document.body)[name].match(/\\d+/g).reduce((sum, one) => sum + +one, 0))""")
    assert colours["light"][0] > 700 > 150 > colours["light"][1], colours
    assert colours["dark"][0] < 150 < 600 < colours["dark"][1], colours


def test_it_prints_without_the_contents(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    page.wait("getComputedStyle(document.querySelector('nav')).display === 'none'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_every_link_has_a_name_and_the_headings_have_an_order(page):
    assert page.nameless() == []
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => +one.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False)), levels
