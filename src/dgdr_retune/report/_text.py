"""Text from data, made safe to show: the one place that knows which characters deceive a terminal or a log."""

from datetime import UTC, datetime

MAX_LENGTH = 300


def printable(value: object, *, max_length: int = MAX_LENGTH) -> str:
    r"""One line of text that shows `value` and can do nothing else.

    What Python does not call printable (controls, line breaks, reordering and invisible marks, lone surrogates,
    unassigned characters) is written as `\xNN`, `\uNNNN` or `\UNNNNNNNN`; over `max_length` characters the text is
    cut and ends in an ellipsis. Markup stays as it is: whoever shows the text passes it as plain text to the terminal
    or escapes it, as the report's template always does.
    """
    text = str(value)
    if len(text) > max_length:
        text = text[: max_length - 1] + "…"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def utc(unix_ms: int, *, timespec: str = "milliseconds") -> str:
    """Unix milliseconds as ISO time, or the number itself where it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ms} ms"
