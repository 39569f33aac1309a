"""What is fixed before the first replay: margin, confidence and the numbers of replications."""

from math import inf

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, lt

PROOF_REPLICATIONS = 8
"""Fewer replications prove nothing unless `maximum_replications` is lower: the noise of a router under load has few
and uneven values, and four of them agree by chance too often."""


@frozen
class Rules:
    """How a sweep is judged. Fixed in advance, so that no result chooses its own test.

    Attributes:
        min_improvement_percentage: a candidate must improve by more than this, in percent of the baseline's score, at
            the lower end of its interval; at least 0.
        confidence: of all candidates' intervals together, over all stages; above 0 and below 1.
        initial_replications: of every candidate, at least 1.
        maximum_replications: of a contender, at least `initial_replications`.

    Raises:
        ValueError: a value is outside of these bounds.
    """

    min_improvement_percentage: float = field(default=1.0, validator=[ge(0.0), lt(inf)])
    confidence: float = field(default=0.95, validator=[gt(0.0), lt(1.0)])
    initial_replications: int = field(default=4, validator=ge(1))
    maximum_replications: int = field(default=32)

    @maximum_replications.validator
    def _reaches_the_first_stage(self, attribute: "Attribute[int]", value: int) -> None:
        if not value >= self.initial_replications:
            message = f"{attribute.name} must be at least initial_replications ({self.initial_replications}): {value}"
            raise ValueError(message)

    @property
    def stages(self) -> tuple[int, ...]:
        """Replications of a contender at the end of each stage: the initial number, then doubled up to the maximum."""
        ends = [self.initial_replications]
        while ends[-1] < self.maximum_replications:
            ends.append(min(2 * ends[-1], self.maximum_replications))
        return tuple(ends)

    @property
    def proof_replications(self) -> int:
        """Replications below which an interval proves nothing."""
        return min(PROOF_REPLICATIONS, self.maximum_replications)
