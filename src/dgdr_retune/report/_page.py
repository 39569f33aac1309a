"""The page itself: what it shows, as plain values, and its rendering. Everything is escaped by the template engine."""

from base64 import b64encode
from collections.abc import Sequence

from attrs import evolve, frozen
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dgdr_retune.report._text import printable

MAX_BYTES = 2_000_000
_FEW_ROWS = 21
_LEFT_OUT = "Shortened to keep this page small; the other files have it all."


@frozen
class Plot:
    """One SVG with the words that stand for it where images are not shown."""

    svg: str
    says: str


@frozen
class Section:
    """A heading with plots and one table at most; the first row of a table is its head."""

    title: str
    explains: str
    plots: Sequence[Plot] = ()
    table: Sequence[Sequence[str]] = ()
    note: str = ""


@frozen
class Page:
    """A result as a person reads it: the verdict first, then what it rests on."""

    name: str
    outcome: str
    heading: str
    summary: Sequence[str]
    sections: Sequence[Section]
    footer: str


def render(page: Page, *, max_bytes: int = MAX_BYTES) -> str:
    """One HTML document without scripts or outside references; SVGs stand in it as images, which run nothing.

    A page over `max_bytes` is shown with short tables, and if that is not enough without plots; it says so.
    """
    shorter = [evolve(each, table=each.table[:_FEW_ROWS], note=f"{each.note} {_LEFT_OUT}") for each in page.sections]
    for sections in (page.sections, shorter, [evolve(each, plots=()) for each in shorter]):
        html = _html(evolve(page, sections=sections))
        if len(html.encode()) <= max_bytes:
            break
    return html


def _html(page: Page) -> str:
    environment = Environment(
        loader=PackageLoader("dgdr_retune.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters["image"] = _image
    return environment.get_template("report.html.jinja").render(page=page)


def _finalize(value: object) -> object:
    """What every expression of the template passes through, before it is escaped."""
    return value if isinstance(value, Markup) else printable(value, max_length=MAX_BYTES)


def _image(plot: Plot) -> Markup:
    return Markup("data:image/svg+xml;base64,{}").format(b64encode(plot.svg.encode()).decode())
