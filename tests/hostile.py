"""Text that attacks whoever shows it, and what a page is made of."""

from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg><script>1</script>",
    "{{ 7 * 7 }}",
    "$\\frac{1}{0}$",
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\r\nERROR forged log line",
    "\u202egnp.exe",
    "[bold red]x[/bold red]",
    "x" * 10_000,
]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(html)
    return parser.seen
