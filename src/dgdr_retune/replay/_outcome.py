"""What the simulator hands out."""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray


@frozen(eq=False)
class Outcome:
    """What a replay did, by row; float64 milliseconds since the first arrival, NaN where there was no such token.

    Attributes:
        arrival_ms: when each request arrived.
        first_token_ms: its first token.
        second_token_ms: its second token.
        end_ms: its last token, or its end if it had none.
        refused: whether its worker refused it.
        worker: where the router sent it.
        output_length: tokens that it generated.
        reused_first: prompt tokens found cached at its first admission; -1 without one.
        reused_most: known tokens found cached at the best of its admissions.
        gap_ms: gaps between consecutive tokens of a request.
        gap_tokens: how many tokens had each of these gaps.
        committed_prefill_tokens: tokens computed in prompts, those computed again after a preemption included.
        admissions: requests admitted, again after a preemption included.
    """

    arrival_ms: NDArray[np.float64]
    first_token_ms: NDArray[np.float64]
    second_token_ms: NDArray[np.float64]
    end_ms: NDArray[np.float64]
    refused: NDArray[np.bool_]
    worker: NDArray[np.int64]
    output_length: NDArray[np.int64]
    reused_first: NDArray[np.int64]
    reused_most: NDArray[np.int64]
    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int32]
    committed_prefill_tokens: int
    admissions: int
