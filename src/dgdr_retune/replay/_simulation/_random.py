"""Counter-based random numbers: a function of (seed, replication, request ordinal, draw) and nothing else.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011), in integer arithmetic
that is the same for unbounded and for 64-bit wrapping integers: only the low 64 bits of a product are looked at.
"""

from dgdr_retune.replay._simulation._compile import kernel

CANONICAL_SEED = 3516948205  # 0xD1A05EED, Dynamo's seed of deterministic replay

_MASK = 0xFFFFFFFF


@kernel
def philox(x0: int, x1: int, x2: int, key0: int, key1: int) -> tuple[int, int]:
    """The first two 32-bit words of a Philox4x32-10 block; 32-bit words, the counter's last is 0."""
    x3 = 0
    for _ in range(10):
        product0 = x0 * 0xD2511F53
        product1 = x2 * 0xCD9E8D57
        x0 = ((product1 >> 32) & _MASK) ^ x1 ^ key0
        x1 = product1 & _MASK
        x2 = ((product0 >> 32) & _MASK) ^ x3 ^ key1
        x3 = product0 & _MASK
        key0 = (key0 + 0x9E3779B9) & _MASK
        key1 = (key1 + 0xBB67AE85) & _MASK
    return x0, x1


@kernel
def uniform(seed: int, replication: int, ordinal: int, draw: int) -> float:
    """A number in [0, 1) with 53 random bits; `seed` below 2**63, the others below 2**32."""
    high, low = philox(ordinal, draw, replication, seed & _MASK, (seed >> 32) & _MASK)
    return ((high >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0
