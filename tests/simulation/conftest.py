"""What holds for every test here: the operator logs nothing."""

from collections.abc import Iterator

import pytest
import structlog

from dgdr_retune.testing._simulate import quiet


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    quiet()
    yield
    structlog.reset_defaults()
