"""Which points a grid has, and in which order."""

from decimal import Decimal

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dgdr_retune.replay import RouterParameters
from dgdr_retune.sweep import GridSection

BASELINE = RouterParameters(overlap_score_credit_decay=0.5, host_cache_hit_weight=0.6, temperature=0.7)


def temperatures(domain: object) -> tuple[float, ...]:
    section = GridSection.model_validate({"overlap_score_credit": 1, "prefill_load_scale": 1, "temperature": domain})
    return section.expand(BASELINE).temperature


def messages(domain: object) -> str:
    with pytest.raises(ValidationError) as caught:
        temperatures(domain)
    return "; ".join(fault["msg"] for fault in caught.value.errors())


def test_the_default_grid_has_dynamos_108_points_with_temperature_fastest() -> None:
    grid = GridSection().expand(BASELINE)
    assert len(grid.points) == len(set(grid.points)) == 108
    assert grid.overlap_score_credit == (0, 0.5, 1)
    assert grid.prefill_load_scale == (0, 0.25, 0.5, 1, 2, 4, 8, 16, 32)
    assert grid.temperature == (0, 0.2, 0.5, 1)
    knobs = [(p.overlap_score_credit, p.prefill_load_scale, p.temperature) for p in grid.points]
    assert knobs == sorted(knobs)


def test_parameters_that_are_not_searched_are_the_baselines() -> None:
    for point in GridSection().expand(BASELINE).points:
        assert evolve(BASELINE, overlap_score_credit=0, prefill_load_scale=0, temperature=0) == evolve(
            point, overlap_score_credit=0, prefill_load_scale=0, temperature=0
        )


def test_equal_numbers_are_one_value_and_the_first_keeps_its_place() -> None:
    assert temperatures({"choices": [1, 0.5, 1.0, 1.00, 0, -0.0]}) == (1.0, 0.5, 0.0)
    assert [str(value) for value in temperatures({"choices": [-0.0]})] == ["0.0"]


def test_a_number_is_a_knob_that_is_not_varied() -> None:
    assert temperatures(0.2) == (0.2,)
    assert temperatures(1) == (1.0,)


def test_a_range_is_counted_in_decimals_and_ends_at_its_maximum() -> None:
    assert temperatures({"range": {"min": 0, "max": 0.7, "step": 0.1}}) == (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    assert temperatures({"range": {"min": 0.1, "max": 1, "step": 0.4}}) == (0.1, 0.5, 0.9)
    assert temperatures({"range": {"min": 2, "max": 2, "step": 1}}) == (2,)


@settings(deadline=None)
@given(minimum=st.integers(0, 10**6), count=st.integers(1, 300), step=st.integers(1, 10**6), digits=st.integers(0, 9))
def test_a_range_has_the_values_that_are_written_out(minimum: int, count: int, step: int, digits: int) -> None:
    expected = [float(Decimal(minimum + step * index).scaleb(-digits)) for index in range(count)]
    bounds = {"min": expected[0], "max": expected[-1], "step": float(Decimal(step).scaleb(-digits))}
    assert temperatures({"range": bounds}) == tuple(expected)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ({"choices": []}, "at least 1"),
        ({"choices": [1, float("nan")]}, "finite"),
        ({"choices": [-1]}, "greater than or equal to 0"),
        ({"choices": [True]}, "valid number"),
        ({"choices": ["1"]}, "valid number"),
        (float("inf"), "finite"),
        (-0.1, "greater than or equal to 0"),
        (True, "valid number"),
        ("1", "must be a number, {choices: [...]} or {range"),
        (None, "must be a number, {choices: [...]} or {range"),
        ({}, "must be a number, {choices: [...]} or {range"),
        ({"range": {"min": 1, "max": 0.5, "step": 1}}, "`min` is 1, above `max`, which is 0.5"),
        ({"range": {"min": 0, "max": 1, "step": 0}}, "greater than 0"),
        ({"range": {"min": 0, "max": 1, "step": 1e-9}}, "more than 1000 values; take a larger `step`"),
        ({"range": {"min": 0, "max": 1e308, "step": 1e-300}}, "more than 1000 values"),
        ({"range": {"min": 0, "max": float("inf"), "step": 1}}, "finite"),
        ({"choices": [1], "range": {"min": 0, "max": 1, "step": 1}}, "not permitted"),
    ],
)
def test_what_is_no_domain_is_refused_with_the_reason(domain: object, said: str) -> None:
    assert said in messages(domain)


def test_a_grid_of_too_many_points_is_refused_with_its_size() -> None:
    many = {"choices": list(range(11))}
    with pytest.raises(ValidationError, match="11 x 11 x 11 = 1331 points; a grid has at most 1000"):
        GridSection.model_validate({"overlap_score_credit": many, "prefill_load_scale": many, "temperature": many})


def test_a_point_is_found_by_its_value() -> None:
    grid = GridSection().expand(BASELINE)
    assert [grid.index(point) for point in grid.points] == list(range(108))
    assert grid.index(BASELINE) is None
