"""What the commands print: tables and words, from values; text from data is shown as text, never as markup."""

from collections.abc import Iterable, Iterator

from attrs import fields
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dgdr_retune.report import KNOBS, printable, utc
from dgdr_retune.sweep import Decision, Grid, ShardPlan, Standing, Sweep, rank
from dgdr_retune.windows import Counts, Cut, Damage, Inspection

_NAMED = 10  # of ignored names; there may be any number
_COLORS = {"recommended": "green", "kept": "cyan", "no_traffic": "yellow", "failed": "red"}


def text(value: object, style: str = "") -> Text:
    """Any value as text that cannot be markup or a control sequence."""
    return Text(printable(value, max_length=2000), style=style)


def table(columns: Iterable[tuple[str, str]]) -> Table:
    """An empty table; columns are (head, `left` or `right`)."""
    made = Table(box=None, padding=(0, 2, 0, 0))
    for head, side in columns:
        made.add_column(text(head), justify="right" if side == "right" else "left", overflow="fold")
    return made


def titled(title: str, shown: Table) -> Group:
    """A table with a line above it, which a table's own title would fold to the table's width."""
    return Group(text(title, "bold"), shown)


def ranking_table(sweep: Sweep, decision: Decision, *, most: int = 12) -> Group:
    """The best candidates and the parameters in force, with intervals."""
    standings = rank(sweep)
    shown = [each for at, each in enumerate(standings) if at < most or each.baseline]
    title = (
        f"Candidates by {sweep.objective.value}, {len(shown)} of {len(standings)}; "
        f"joint {100 * sweep.rules.confidence:g} % intervals of the improvement"
    )
    made = table(
        [
            ("", "right"),
            ("credit", "right"),
            ("scale", "right"),
            ("temp.", "right"),
            (sweep.objective.unit, "right"),
            ("better", "right"),
            ("interval (%)", "left"),
            ("runs", "right"),
            ("", "left"),
        ],
    )
    for at, standing in enumerate(standings, start=1):
        if standing in shown:
            best = decision.best is not None and standing.candidate == decision.best.candidate
            made.add_row(*_row(at, standing), style="bold" if best else "cyan" if standing.baseline else "")
    return titled(title, made)


def _row(place: int, standing: Standing) -> list[Text]:
    router = standing.candidate.router
    interval = standing.interval
    said = "in force" if standing.baseline else ""
    cells: list[object] = [
        place,
        *(f"{getattr(router, knob):g}" for knob in KNOBS),
        "-" if standing.score is None else f"{standing.score:,.2f}",
        "" if standing.improvement is None or standing.baseline else f"{standing.improvement:+.2f}",
        "" if interval is None or standing.baseline else f"{interval.lower:+.2f} … {interval.upper:+.2f}",
        standing.replications,
        standing.failure.message if standing.failure else said,
    ]
    return [text(cell) for cell in cells]


def print_decision(console: Console, decision: Decision) -> None:
    """The decision in words."""
    console.print()
    console.print(text(f"Decision: {decision.outcome}", f"bold {_COLORS[decision.outcome]}"))
    for reason in decision.reasons:
        console.print(text(reason))


def cut_table(cut: Cut) -> Group:
    """A cut's outcome and counts."""
    made = table([("", "left"), ("", "right")])
    for count in fields(Counts):
        made.add_row(text(count.name), text(f"{getattr(cut.counts, count.name):,}"))
    for reason, number in cut.malformed.items():
        made.add_row(text(f"refused: {reason}"), text(f"{number:,}"))
    made.add_row(text("frontends"), text(cut.completeness.frontends))
    made.add_row(text("gaps"), text(cut.completeness.gap_count))
    made.add_row(text("gap_seconds"), text(f"{cut.completeness.gap_ms / 1000:,.1f}"))
    return titled(f"{cut.outcome}: {cut.path or 'no request arrived in the window'}", made)


def inspection_table(inspection: Inspection) -> Group:
    """Every segment, and the sum."""
    made = table(
        [
            ("frontend", "left"),
            ("segment", "left"),
            ("members", "right"),
            ("rows", "right"),
            ("refused", "right"),
            ("first arrival (UTC)", "left"),
            ("last", "left"),
            ("block size", "right"),
            ("damage", "left"),
        ],
    )
    for pod in inspection.pods:
        for segment in pod.segments:
            cells = [
                pod.pod,
                segment.name,
                segment.damage.members,
                f"{segment.rows:,}",
                ", ".join(f"{reason} {number}" for reason, number in segment.refused.items()) or "0",
                _time(segment.first_arrival_ms),
                _time(segment.last_arrival_ms),
                ", ".join(map(str, segment.block_sizes)),
                _damage(segment.damage),
            ]
            made.add_row(*map(text, cells))
    return titled(
        f"{inspection.rows:,} rows in {len(inspection.segments)} segments, {inspection.damage.members} members", made
    )


def inspection_remarks(inspection: Inspection) -> Iterator[str]:
    """What the table has no place for."""
    empty = [pod.pod for pod in inspection.pods if not pod.segments]
    if empty:
        yield f"Without a segment: {', '.join(empty)}."
    if inspection.ignored:
        yield f"Ignored, not segments of a frontend: {', '.join(inspection.ignored[:_NAMED])}" + (
            f" and {len(inspection.ignored) - _NAMED} more." if len(inspection.ignored) > _NAMED else "."
        )
    if not inspection.rows:
        yield "No row can be replayed. Do the frontends record with DYN_REQUEST_TRACE=1 into this directory?"


def plan_table(grid: Grid, shards: ShardPlan) -> Group:
    """How a grid is split."""
    made = table([("shard", "right"), ("points", "right"), ("grid index", "left")])
    for at, part in enumerate(shards.parts, start=1):
        made.add_row(text(f"{at}/{len(shards.parts)}"), text(len(part)), text(f"{part.start} … {part.stop - 1}"))
    title = (
        f"{len(grid.points)} points in {len(shards.parts)} shards: {shards.rounds} rounds, {shards.need_seconds:g} s"
    )
    if len(shards.parts) > shards.max_shards:
        title += f"; does not fit: at most {shards.max_shards} may run"
    return titled(title, made)


def _damage(damage: Damage) -> str:
    said = {
        "corrupt members": damage.corrupt_members,
        "corrupt bytes": damage.corrupt_bytes,
        "truncated tail": damage.truncated_tails,
        "zero bytes": damage.zero_fill_bytes,
    }
    return ", ".join(f"{number:,} {what}" for what, number in said.items() if number) or "none"


def _time(unix_ms: int | None) -> str:
    if unix_ms is None:
        return "-"
    return utc(unix_ms, timespec="seconds")
