"""The child of `cut_in_child`: an order on standard input, an answer on standard output, both JSON."""

import os
import sys
from typing import Final

import msgspec

from dgdr_retune._process import die_with, processors
from dgdr_retune.windows._child import Answer, Order
from dgdr_retune.windows._cut import cut
from dgdr_retune.windows._errors import Failure, WindowError

NICENESS: Final = 10
"""A cut must not slow down what it shares a host with."""

MOST_PROCESSES: Final = 4
"""Of one cut, as far as there are processors for them."""


def main() -> None:
    """Cut one window, unless the parent is gone."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    die_with(order.parent)
    os.nice(NICENESS)
    # Whatever a library prints must not end up in the answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with answers:
        answers.write(msgspec.json.encode(_answer(order)))


def _answer(order: Order) -> Answer:
    processes = min(processors(), MOST_PROCESSES)
    try:
        return Answer(cut=cut(order.request, processes=processes))
    except WindowError as error:
        return Answer(failure=Failure.of(error))


if __name__ == "__main__":
    main()
