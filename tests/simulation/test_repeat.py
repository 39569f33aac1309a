"""A run is a function of its seed, in this process and in others."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from dgdr_retune.testing import SCENARIOS, Faults, Outcome, simulate

ROOT = Path(__file__).parents[2]
SEEDS = range(900, 903)
SCRIPT = "from tests.simulation.test_repeat import digest; print(digest())"


def played(seed: int) -> Outcome:
    return simulate(SCENARIOS[seed % len(SCENARIOS)], seed, faults=Faults.of_seed(seed))


def digest() -> str:
    """Of everything that some runs came to, their histories included."""
    return sha256(repr([played(seed) for seed in SEEDS]).encode()).hexdigest()


def test_the_same_seed_gives_the_same_run() -> None:
    assert digest() == digest()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_gives_the_same_run_in_another_process(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=240, check=True
    )
    assert done.stdout.splitlines()[-1] == digest()


def test_another_seed_gives_another_run() -> None:
    assert played(900).history != simulate(SCENARIOS[900 % len(SCENARIOS)], 901, faults=Faults.of_seed(901)).history


def test_a_failure_says_how_to_repeat_it_and_what_happened_last() -> None:
    shown = str(played(901))
    assert shown.startswith(f"dgdr-retune-simulate --first 901 --seeds 1 --scenario {SCENARIOS[901 % 31].name}\n")
    assert "history:" in shown
    assert "operator-a1" in shown
