"""How long to wait before the next attempt."""

import random

from attrs import frozen


@frozen
class Backoff:
    """A wait that doubles, with jitter, so that many who failed together do not come back together.

    Attributes:
        first_s: about the wait before the second attempt.
        cap_s: the longest wait that the server has not asked for.
    """

    first_s: float
    cap_s: float

    def wait_s(self, failures: int, rng: random.Random, retry_after_s: float | None = None) -> float:
        """Seconds to wait after so many failures in a row (1 or more); at least as long as the server asks for."""
        usual_s = min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 62))
        if retry_after_s is None:
            return rng.uniform(usual_s / 2, usual_s)
        return retry_after_s + rng.uniform(0, max(usual_s, retry_after_s / 4))
