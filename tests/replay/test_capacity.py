"""The cache size that tells recorded cached tokens best."""

from collections import OrderedDict

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.replay import Recorded, Trace
from dgdr_retune.replay._capacity import cached_blocks

BLOCK = 4
Prompt = tuple[list[int], int, int, int]
"""Blocks, generated tokens, cached blocks as recorded, worker."""

prompts = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 12), st.integers(0, 6), st.integers(0, 1)
    ),
    min_size=1,
    max_size=25,
)


def window(served: list[Prompt]) -> tuple[Trace, Recorded]:
    lengths = [len(blocks) for blocks, _, _, _ in served]
    n = len(served)
    trace = Trace(
        block_size=BLOCK,
        arrival_ms=np.arange(n),
        input_length=np.array([BLOCK * length for length in lengths], np.int32),
        output_length=np.array([generated for _, generated, _, _ in served], np.int32),
        hash_start=np.concatenate(([0], np.cumsum(lengths))),
        hashes=np.array([block for blocks, _, _, _ in served for block in blocks], np.uint64),
    )
    recorded = Recorded(
        known=np.ones(n, bool),
        **{name: np.zeros(n) for name in ("wait_ms", "prefill_ms", "ttft_ms", "total_ms")},
        cached_tokens=np.array([BLOCK * cached for _, _, cached, _ in served]),
        worker=np.array([worker for _, _, _, worker in served]),
    )
    return trace, recorded


def held(served: list[Prompt], size: int) -> list[int]:
    """Blocks of each prompt that a cache of this size holds when it comes."""
    caches: dict[int, OrderedDict[object, None]] = {}
    found = []
    for number, (blocks, generated, _, worker) in enumerate(served):
        cache = caches.setdefault(worker, OrderedDict())
        found.append(next((at for at, block in enumerate(blocks) if block not in cache), len(blocks)))
        for block in (*blocks, *((number, at) for at in range(generated // BLOCK))):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > size:
            cache.popitem(last=False)
    return found


@settings(deadline=None, max_examples=200)
@given(served=prompts)
def test_the_size_is_the_best_of_all_and_the_smallest_of_equals(served: list[Prompt]) -> None:
    recorded = [cached for _, _, cached, _ in served]
    largest = sum(len(blocks) + generated for blocks, generated, _, _ in served)
    errors = [
        sum(abs(has - had) for has, had in zip(held(served, size), recorded, strict=True))
        for size in range(largest + 1)
    ]
    best = min(range(largest + 1), key=errors.__getitem__)
    found = cached_blocks(*window(served), np.arange(len(served)))
    if 2 * errors[best] >= min(errors[-1], errors[0]):
        assert found is None
    else:
        assert found == best


@pytest.mark.parametrize("size", [5, 60])
def test_the_cached_tokens_of_a_cache_give_its_size(size: int) -> None:
    rng = np.random.default_rng(size)
    served = [(rng.choice(80, 4, replace=False).tolist(), 9, 0, number % 2) for number in range(2000)]
    had = [(*prompt[:2], cached, prompt[3]) for prompt, cached in zip(served, held(served, size), strict=True)]
    trace, recorded = window(had)
    assert cached_blocks(trace, recorded, np.arange(2000)) == size


def test_a_few_odd_rows_are_no_eviction() -> None:
    served = [([number % 20, 20 + number % 20], 0, 0, 0) for number in range(400)]
    had = [(*prompt[:2], cached, 0) for prompt, cached in zip(served, held(served, 1000), strict=True)]
    trace, recorded = window(
        [(*prompt[:2], 0, 0) if number % 50 == 49 else prompt for number, prompt in enumerate(had)]
    )
    assert cached_blocks(trace, recorded, np.arange(400)) is None


@pytest.mark.timeout(20)
def test_answers_and_workers_without_end_take_no_time() -> None:
    served = [([number % 9], 0, 1, 0) for number in range(20_000)]
    trace, recorded = window(served)
    endless = evolve(trace, output_length=np.full(20_000, 2**31 - 1, np.int32))
    for worker in (recorded.worker, np.arange(20_000)):
        assert cached_blocks(endless, evolve(recorded, worker=worker), np.arange(20_000)) is None


def test_a_prompt_beyond_what_is_looked_at_shows_no_size() -> None:
    served = [(list(range(500_001)), 0, 0, 0)]
    assert cached_blocks(*window(served), np.arange(1)) is None
