"""The child of `cut_in_child`: an order on standard input, an answer on standard output, both JSON."""

import ctypes
import os
import signal
import sys
from typing import Final

import msgspec

from dgdr_retune.windows._child import Answer, Failure, Order
from dgdr_retune.windows._cut import cut
from dgdr_retune.windows._errors import WindowError

NICENESS: Final = 10
"""A cut must not slow down what it shares a host with."""

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Cut one window, unless the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(NICENESS)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if os.getppid() != order.parent:
        sys.exit("the process that ordered the cut is gone")
    # Whatever a library prints must not end up in the answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with answers:
        answers.write(msgspec.json.encode(_answer(order)))


def _answer(order: Order) -> Answer:
    try:
        return Answer(cut=cut(order.request))
    except WindowError as error:
        return Answer(failure=Failure.of(error))


if __name__ == "__main__":
    main()
