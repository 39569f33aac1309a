"""``dgdr-retune-simulate``: play the operator's scenarios for many seeds, and count what went wrong on purpose."""

import json
import logging
import platform
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import structlog
import typer
from attrs import field, frozen

from dgdr_retune import __version__
from dgdr_retune.testing._faults import Fault, Faults
from dgdr_retune.testing._scenarios import SCENARIOS, Scenario
from dgdr_retune.testing._simulation import Outcome, simulate, undisturbed

_SHOWN: Final = 5
"""How many failures are shown in full."""


@frozen
class Tally:
    """What many runs came to.

    Attributes:
        seeds: how many there were.
        failures: those with problems.
        fired: how often each kind of fault happened.
        crashes: what killed processes had written last, and how often.
        writes: what the operator wrote, and how often.
    """

    seeds: int = 0
    failures: list[Outcome] = field(factory=list)
    fired: Counter[Fault] = field(factory=Counter)
    crashes: Counter[str] = field(factory=Counter)
    writes: Counter[str] = field(factory=Counter)


def played(seeds: range, scenarios: tuple[Scenario, ...]) -> Iterator[Outcome]:
    """Play the scenarios in turn, one for each seed; each must come to what it comes to undisturbed."""
    for seed in seeds:
        scenario = scenarios[seed % len(scenarios)]
        model = undisturbed(scenario)
        if model.problems:
            yield model
        else:
            yield simulate(scenario, seed, faults=Faults.of_seed(seed), wanted=model.state)


def tally(seeds: range, scenarios: tuple[Scenario, ...] = SCENARIOS) -> Tally:
    """Play the scenarios and count."""
    total = Tally(seeds=len(seeds))
    for outcome in played(seeds, scenarios):
        total.fired.update(outcome.fired)
        total.crashes.update(outcome.crashes)
        total.writes.update(outcome.writes)
        if outcome.problems:
            total.failures.append(outcome)
    return total


def quiet() -> None:
    """Say nothing of what the operator logs: it logs thousands of simulated days."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main() -> None:
    """Run the command."""
    typer.run(_command)


def _command(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")],
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    scenario: Annotated[str, typer.Option(help="Play this scenario alone.")] = "",
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the result here, too.")] = None,
) -> None:
    """Play the operator's scenarios in a simulated cluster, with faults, one scenario for each seed.

    Each run must keep every invariant and come to the same end as without faults; otherwise its seed and what happened
    last are shown, and the exit status is 1.
    """
    chosen = tuple(each for each in SCENARIOS if scenario in ("", each.name))
    if not chosen:
        names = ", ".join(each.name for each in SCENARIOS)
        raise typer.BadParameter(f"there is no {scenario}; there are {names}", param_hint="--scenario")
    quiet()
    total = tally(range(first, first + seeds), chosen)
    for failure in total.failures[:_SHOWN]:
        sys.stdout.write(f"{failure}\n\n")
    sys.stdout.write(_table(total))
    if as_json is not None:
        as_json.write_text(json.dumps(_document(total, first), indent=2) + "\n")
    if total.failures:
        raise typer.Exit(1)


def _table(total: Tally) -> str:
    lines = [f"{total.seeds} seeds, {len(total.failures)} of them failed", "faults:"]
    lines += [f"{total.fired[fault]:10d}  {fault}" for fault in Fault]
    lines += ["crashes after:", *(f"{total.crashes[name]:10d}  {name}" for name in sorted(total.crashes))]
    lines += ["writes:", *(f"{count:10d}  {name}" for name, count in sorted(total.writes.items()))]
    return "\n".join(lines) + "\n"


def _document(total: Tally, first: int) -> dict[str, Any]:
    return {
        "about": {
            "date": datetime.now(UTC).date().isoformat(),
            "dgdr_retune": __version__,
            "python": platform.python_version(),
        },
        "first": first,
        "seeds": total.seeds,
        "failures": [
            {"scenario": each.scenario, "seed": each.seed, "problems": each.problems} for each in total.failures
        ],
        "faults": {fault: total.fired[fault] for fault in Fault},
        "crashes_after": dict(sorted(total.crashes.items())),
        "writes": dict(sorted(total.writes.items())),
    }
