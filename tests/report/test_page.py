import re
from html import escape

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.report._page import Page, Plot, Section, render
from dgdr_retune.report._plots import IntervalRow, arrivals, heat_map, intervals, knob_effect, latencies, prefill_fit
from dgdr_retune.report._text import printable
from hostile import HOSTILE, tags


def page(text: str) -> Page:
    section = Section(
        title=text, explains=text, plots=[Plot(svg="<svg/>", says=text)], table=[[text, text], [text, text]], note=text
    )
    return Page(name=text, outcome=text, heading=text, summary=[text], sections=[section], footer=text)


def test_hostile_text_adds_no_tag_and_no_attribute_to_the_page() -> None:
    harmless = [(tag, set(attributes)) for tag, attributes in tags(render(page("harmless")))]
    for text in HOSTILE:
        assert [(tag, set(attributes)) for tag, attributes in tags(render(page(text)))] == harmless


@settings(deadline=None, max_examples=100)
@given(st.text(min_size=1, max_size=50))
def test_any_text_adds_no_tag_and_no_attribute_to_the_page(text: str) -> None:
    harmless = [(tag, set(attributes)) for tag, attributes in tags(render(page("harmless")))]
    assert [(tag, set(attributes)) for tag, attributes in tags(render(page(text)))] == harmless


def test_the_page_needs_no_script_and_nothing_from_outside() -> None:
    html = render(page("x"))
    assert "default-src 'none'" in html
    for tag, attributes in tags(html):
        assert tag not in {"script", "iframe", "object", "embed", "link", "base", "form"}
        assert not any(name.startswith("on") for name in attributes)
        source = attributes.get("src")
        assert source is None or source.startswith("data:image/svg+xml;base64,")
        assert "href" not in attributes


def test_hostile_names_in_plots_stay_text_within_well_formed_svg() -> None:
    for text in HOSTILE[:-1]:
        name = printable(text)
        svg = arrivals(np.array([5_000, 6_000]), start_ms=0, end_ms=60_000, gaps=[(name, 10_000, 30_000)])
        assert "<script" not in svg
        assert "<img" not in svg
        assert svg.rstrip().endswith("</svg>")
        assert escape(name, quote=False) in svg


@given(st.text(max_size=400))
def test_printable_text_is_one_line_without_control_or_formatting_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable() or not shown
    assert shown.splitlines() in ([], [shown])
    shown.encode("utf-8")


def test_printable_shows_what_it_neutralises() -> None:
    assert printable("a\x1b[31m\u202e\ud800\n") == r"a\x1b[31m\u202e\ud800\n"
    assert printable("naïve 模型 é") == "naïve 模型 é"
    assert printable("x" * 1000) == "x" * 299 + "…"


def test_equal_numbers_give_equal_plots() -> None:
    def draw() -> list[str]:
        values = np.arange(1.0, 200.0)
        return [
            heat_map(
                x_name="a", x=[0, 1], y_name="b", y=[0, 1], improvement=np.array([[0, 1], [np.nan, -2.0]]), what="%"
            ),
            knob_effect(name="a", values=[0, 1], improvements=[values, values[:0]], what="%"),
            intervals([IntervalRow("a", -1, 0, 1, best=True)], needed=1, what="%"),
            latencies(name="TTFT", recorded=values, baseline=values, best=None, bound_ms=100),
            prefill_fit(tokens=values, prefill_ms=values, constant_ms=1.0, ms_per_token=1.0),
            arrivals(np.arange(0, 60_000, 100), start_ms=0, end_ms=60_000, gaps=[]),
        ]

    first = draw()
    assert first == draw()
    assert [re.search(r"<dc:date>|mathdefault", svg) for svg in first] == [None] * 6


def test_a_page_over_its_size_is_shortened_and_says_so() -> None:
    rows = [["x" * 50]] * 1000
    large = Page(
        name="n",
        outcome="kept",
        heading="Decision",
        summary=[],
        sections=[Section(title="t", explains="e", plots=[Plot(svg="<svg/>" * 2000, says="p")], table=rows)],
        footer="",
    )
    whole = render(large)
    assert whole.count("<tr>") == 1000
    short = render(large, max_bytes=40_000)
    assert len(short.encode()) <= 40_000
    assert (short.count("<tr>"), short.count("<img")) == (21, 1)
    assert "Shortened" in short
    assert render(large, max_bytes=10_000).count("<img") == 0
