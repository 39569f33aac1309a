"""How long a pass takes."""

import math

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import Policy, Polynomial, Shape

_HALF = 0.5


@kernel
def whole_nanoseconds(ms: float) -> float:
    """A duration as the native engine keeps it: seconds, rounded to a whole number of nanoseconds.

    Round numbers of tokens give exact halves, so the side matters: halves of the exact product go to the even side.
    """
    seconds = ms / 1e3
    product = seconds * 1e9
    nanoseconds = math.floor(product)
    rest = product - nanoseconds - _HALF
    if rest == 0.0:
        shifted = seconds * 134217729.0  # Veltkamp's split and Dekker's product: what `product` lost in rounding
        high = shifted - (shifted - seconds)
        lost = (high * 1e9 - product) + (seconds - high) * 1e9
        if lost > 0.0 or (lost == 0.0 and nanoseconds % 2 == 1):
            nanoseconds += 1
    elif rest > 0.0:
        nanoseconds += 1
    return nanoseconds / 1e9 * 1e3


@kernel
def value(polynomial: Polynomial, x: float) -> float:
    """Of a polynomial at `x`."""
    return polynomial.square * (x * x) + polynomial.linear * x + polynomial.constant


@kernel
def prefill_ms(policy: Policy, prompts: int, ends: int, starts: int) -> float:
    """The time for the new prompt tokens of a pass.

    Counted as the native engine does, from whole mean lengths: `ends` and `starts` are the sums, over the `prompts`
    with new tokens, of prompt tokens computed after and before the pass.
    """
    if prompts == 0:
        return 0.0
    return whole_nanoseconds(value(policy.prefill_ms, float(prompts * (ends // prompts - starts // prompts))))


@kernel
def decode_ms(shape: Shape, policy: Policy, context_tokens: int) -> float:
    """The time for one token of each decoding request, with so many known tokens among them."""
    share = min(context_tokens / shape.decode_tokens, 1.0)
    return whole_nanoseconds(max(value(policy.decode_ms, share), policy.least_decode_ms))
