"""What a worker answers, byte by byte, without a process around it."""

import pickle
from io import BufferedRWPair, BytesIO, RawIOBase
from typing import cast

import msgspec
import pytest
from attrs import frozen
from sweep_doubles import SCENARIO, Engine, Refusing, Unloadable, small_trace

from dgdr_retune.replay import Metrics, RouterParameters, share
from dgdr_retune.sweep._worker import MAX_MESSAGE, Answer, frame, serve

ROUTER = RouterParameters(overlap_score_credit=0.25)


@frozen
class Verbose(Engine):
    """Fails with a page of text."""

    def replay(self, *_: object) -> Metrics:
        raise RuntimeError("all work " * 1000)


@frozen
class Wordy(Engine):
    """Gives a metric that is no number."""

    def replay(self, *_: object) -> Metrics:
        return Metrics({"mean_ttft_ms": "fast"})  # type: ignore[dict-item]  # what an engine must not do


def answers(engine: Engine, *questions: tuple[str, RouterParameters, int], rest: bytes = b"") -> list[Answer]:
    """What a worker says to these questions, when its parent is gone after `rest`."""
    with share(small_trace()) as handle:
        asked = [(engine, SCENARIO, handle), *questions]
        incoming = BytesIO(b"".join(frame(pickle.dumps(message)) for message in asked) + rest)
        outgoing = BytesIO()
        stream = BufferedRWPair(cast("RawIOBase", incoming), cast("RawIOBase", outgoing))
        serve(stream)
        written = outgoing.getvalue()
    said = []
    while written:
        length = int.from_bytes(written[:4], "big")
        said.append(msgspec.msgpack.decode(written[4 : 4 + length], type=Answer))
        written = written[4 + length :]
    return said


def test_each_question_gets_one_answer_in_order() -> None:
    said = answers(Engine(), ("replay", ROUTER, 0), ("replay", ROUTER, 4), ("request_times", ROUTER, 0))
    assert [answer.metrics["mean_ttft_ms"] for answer in said if answer.metrics] == [104.0, 104.5]
    assert said[2].times is not None
    assert [len(column) for column in said[2].times] == [24, 24, 24]
    assert all(answer.elapsed_s >= 0 for answer in said)


def test_it_ends_when_the_parent_is_gone_in_the_middle_of_a_question() -> None:
    assert len(answers(Engine(), ("replay", ROUTER, 0), rest=b"\0\0")) == 1


@pytest.mark.parametrize(
    ("engine", "credit", "reason", "message"),
    [
        (Refusing(), 0, "replay_failed", "timing is missing; give `timing`"),
        (Refusing(), 0.5, "engine_failed", "ZeroDivisionError: half"),
        (Unloadable(), 1, "engine_failed", "ValueError: invalid literal for int() with base 10: 'not a number'"),
        (Wordy(), 1, "engine_failed", "ValueError: could not convert string to float: 'fast'"),
    ],
)
def test_a_failure_is_an_answer(engine: Engine, credit: float, reason: str, message: str) -> None:
    (said,) = answers(engine, ("replay", RouterParameters(overlap_score_credit=credit), 0))
    assert (said.metrics, said.times) == (None, None)
    assert (said.reason, said.message) == (reason, message)


def test_a_message_is_passed_on_in_bounds() -> None:
    (said,) = answers(Verbose(), ("replay", ROUTER, 0))
    assert len(said.message) == MAX_MESSAGE
