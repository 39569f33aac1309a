"""What is fixed before the first replay: margin, confidence and the numbers of replications."""

from attrs import frozen

PROOF_REPLICATIONS = 8
"""Fewer replications prove nothing unless `maximum_replications` is lower: the noise of a router under load has few
and uneven values, and four of them agree by chance too often."""


@frozen
class Rules:
    """How a sweep is judged. Fixed in advance, so that no result chooses its own test.

    Attributes:
        min_improvement_percentage: a candidate must improve by more than this, in percent of the baseline's score, at
            the lower end of its interval; at least 0.
        confidence: of all candidates' intervals together, over all stages.
        initial_replications: of every candidate, at least 1.
        maximum_replications: of a contender, at least `initial_replications`.
    """

    min_improvement_percentage: float = 1.0
    confidence: float = 0.95
    initial_replications: int = 4
    maximum_replications: int = 32

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
