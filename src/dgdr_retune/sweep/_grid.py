"""Which router parameters are tried: the domains of the three searched knobs, expanded into grid points."""

from decimal import Decimal, localcontext
from itertools import product
from math import prod
from typing import Annotated, Any, Self

from attrs import evolve, frozen
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from dgdr_retune.replay import RouterParameters

MAX_POINTS = 1000
"""A grid's size at most: ten shards of 100 points, and far more than one interval has time for."""

KnobValue = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ChoicesSection(_Section):
    """A knob's values, one by one."""

    choices: Annotated[tuple[KnobValue, ...], Field(min_length=1, max_length=MAX_POINTS)]
    """The values to try; numbers that are equal (1 and 1.0) are one value."""

    def values(self) -> tuple[float, ...]:
        """The values in the order given."""
        return self.choices


class RangeBounds(_Section):
    """The bounds of an evenly spaced range."""

    min: KnobValue
    """The first value."""
    max: KnobValue
    """No value is above this; it is one itself where a whole number of steps ends on it."""
    step: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
    """The distance between two values, in decimal arithmetic: 0, 0.1, 0.2, 0.3 rather than 0.30000000000000004."""

    @model_validator(mode="after")
    def _ordered_and_bounded(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"`min` is {self.min:g}, above `max`, which is {self.max:g}")
        if _decimal(self.max) - _decimal(self.min) >= MAX_POINTS * _decimal(self.step):
            raise ValueError(f"more than {MAX_POINTS} values; take a larger `step`")
        return self


class RangeSection(_Section):
    """A knob's values, evenly spaced."""

    range: RangeBounds
    """The bounds of the values to try."""

    def values(self) -> tuple[float, ...]:
        """The values in ascending order."""
        first, last, step = (_decimal(value) for value in (self.range.min, self.range.max, self.range.step))
        with localcontext(prec=40):  # a float has at most 17 significant digits; 40 keep a thousand steps exact
            return tuple(float(first + step * index) for index in range(int((last - first) / step) + 1))


def _form(value: Any) -> str | None:
    if isinstance(value, ChoicesSection) or (isinstance(value, dict) and "choices" in value):
        return "choices"
    if isinstance(value, RangeSection) or (isinstance(value, dict) and "range" in value):
        return "range"
    return "scalar" if isinstance(value, float | int) else None


KnobDomain = Annotated[
    Annotated[KnobValue, Tag("scalar")]
    | Annotated[ChoicesSection, Tag("choices")]
    | Annotated[RangeSection, Tag("range")],
    Discriminator(
        _form,
        custom_error_type="knob_domain",
        custom_error_message="must be a number, {choices: [...]} or {range: {min, max, step}}",
    ),
]


class GridSection(_Section):
    """The candidates: a number, `{choices: [...]}` or `{range: {min, max, step}}` for each of the three knobs.

    The defaults are Dynamo's own grid of 108 points.
    """

    overlap_score_credit: KnobDomain = ChoicesSection(choices=(0, 0.5, 1))
    """How much a cached prompt block counts against the prefill it saves; 0 ignores the cache."""
    prefill_load_scale: KnobDomain = ChoicesSection(choices=(0, 0.25, 0.5, 1, 2, 4, 8, 16, 32))
    """Weight of prefill work against decode blocks."""
    temperature: KnobDomain = ChoicesSection(choices=(0, 0.2, 0.5, 1))
    """Randomness of the choice; 0 takes the cheapest worker."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        sizes = [len(values) for values in self._knobs()]
        if prod(sizes) > MAX_POINTS:
            counts = " x ".join(map(str, sizes))
            raise ValueError(f"{counts} = {prod(sizes)} points; a grid has at most {MAX_POINTS}: try fewer values")
        return self

    def _knobs(self) -> tuple[tuple[float, ...], ...]:
        return tuple(map(_canonical, (self.overlap_score_credit, self.prefill_load_scale, self.temperature)))

    def expand(self, baseline: RouterParameters) -> "Grid":
        """The grid points, with the five parameters that are not searched as `baseline` has them."""
        credit_values, scales, temperatures = self._knobs()
        return Grid(
            overlap_score_credit=credit_values,
            prefill_load_scale=scales,
            temperature=temperatures,
            points=tuple(
                evolve(baseline, overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
                for credit, scale, temperature in product(credit_values, scales, temperatures)
            ),
        )


@frozen
class Grid:
    """The points of a sweep in their order; a point's position is its grid index.

    Attributes:
        overlap_score_credit: the distinct values of this knob, in the order of the configuration.
        prefill_load_scale: likewise.
        temperature: likewise.
        points: every combination, the last knob varying fastest.
    """

    overlap_score_credit: tuple[float, ...]
    prefill_load_scale: tuple[float, ...]
    temperature: tuple[float, ...]
    points: tuple[RouterParameters, ...]

    def index(self, router: RouterParameters) -> int | None:
        """The grid index of these parameters, or None where they are off the grid."""
        return self.points.index(router) if router in self.points else None


def _decimal(value: float) -> Decimal:
    """The number as it was written: 0.1 is one tenth."""
    return Decimal(repr(float(value)))


def _canonical(knob: float | ChoicesSection | RangeSection) -> tuple[float, ...]:
    """A knob's distinct values, first come first; adding 0.0 makes -0.0 and 0 one number."""
    values = (knob,) if isinstance(knob, float | int) else knob.values()
    return tuple(dict.fromkeys(float(value) + 0.0 for value in values))
