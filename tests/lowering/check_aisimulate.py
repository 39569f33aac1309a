"""Does AISimulate accept what Requests are lowered to? Ask its own configuration models, and write down what they said.

    python tests/lowering/check_aisimulate.py PYTHON

PYTHON is the interpreter of an environment with `aisimulate`, `ai-dynamo` and `ai-dynamo-runtime` (their
configuration models need none of their dependencies but pydantic and pyyaml). The answer is written beside this file;
a test compares it with what Requests are lowered to today.
"""

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.lowering.varied_requests import BASE, FAULTS, request_with, varied_requests

from dgdr_retune.api import canonical_json, spec_digest
from dgdr_retune.lowering import lower, merge_patch

Json = Any

RESULT = Path(__file__).with_name("aisimulate.json")

JUDGE = """
import json, sys
from importlib.metadata import version
from aisimulate.config import CoreRecommendationConfig
from aisimulate.config.common import split_config_sections
from dynamo.router.simulation.config import RouterRecommendationConfig

def judge(document):
    try:
        core, adapters = split_config_sections(document, command="recommend")
        CoreRecommendationConfig.model_validate(core)
        if set(adapters) - {"router"}:
            raise ValueError(f"unknown sections {set(adapters)}")
        if "router" in adapters:
            RouterRecommendationConfig.model_validate(adapters["router"])
    except ValueError as error:
        return str(error)
    return ""

documents = json.load(sys.stdin)
packages = ("aisimulate", "ai-dynamo")
json.dump({
    "versions": {name: version(name) for name in packages},
    "verdicts": {name: judge(document) for name, document in documents.items()},
}, sys.stdout)
"""


def documents() -> dict[str, Json]:
    """What each Request is lowered to."""
    return {name: lower(request_with(spec)).document for name, spec in varied_requests().items()}


def faulty_documents() -> dict[str, Json]:
    """What each fault would be in AISimulate's input."""
    sound = lower(request_with(BASE)).document
    return {name: merge_patch(sound, fault.input) for name, fault in FAULTS.items()}


def main() -> int:
    """Ask, write the result, say what differs from what is expected."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("python", type=Path)
    accepted, refused = documents(), faulty_documents()
    asked = subprocess.run(
        [arguments.parse_args().python, "-c", JUDGE],
        input=canonical_json(accepted | refused),
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(asked.stdout)
    verdicts = answer["verdicts"]
    surprises = [f"{name}: refused: {verdicts[name]}" for name in accepted if verdicts[name]]
    surprises += [f"{name}: accepted" for name in refused if not verdicts[name] and not FAULTS[name].because]
    surprises += [f"{name}: refused after all" for name in refused if verdicts[name] and FAULTS[name].because]
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": answer["versions"],
        "accepted": {name: spec_digest(document) for name, document in accepted.items() if not verdicts[name]},
        "refused": {name: spec_digest(document) for name, document in refused.items() if verdicts[name]},
        "refused here alone": {name: FAULTS[name].because for name in refused if not verdicts[name]},
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write("\n".join([*surprises, f"{len(accepted)} lowered Requests, {len(refused)} faults"]) + "\n")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
