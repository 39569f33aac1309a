import itertools

import numpy as np
import pytest

from dgdr_retune.replay._simulation import _random as random


def test_the_generator_gives_the_known_answer_of_philox_4x32_10() -> None:
    assert random.philox(0, 0, 0, 0, 0) == (0x6627E8D5, 0xE169C58D)


@pytest.mark.parametrize("seed", [0, random.CANONICAL_SEED, 2**63 - 1])
def test_a_number_depends_on_nothing_but_its_four_arguments(seed: int) -> None:
    places = list(itertools.product(range(3), range(1, 50), range(4)))
    numbers = {place: random.uniform(seed, *place) for place in places}
    assert {place: random.uniform(seed, *place) for place in reversed(places)} == numbers
    assert len(set(numbers.values())) == len(places)


def test_numbers_are_uniform() -> None:
    numbers = np.array([random.uniform(random.CANONICAL_SEED, 0, row, 0) for row in range(20_000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts, _ = np.histogram(numbers, bins=20, range=(0.0, 1.0))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-squared, 19 degrees of freedom, p = 0.001


def test_the_canonical_seed_is_the_one_of_dynamos_deterministic_replay() -> None:
    assert random.CANONICAL_SEED == 0xD1A05EED
