"""What examples/cluster/steps.sh says when it does not go well; on a real node tests/cluster takes its steps."""

import os
import subprocess
from pathlib import Path

STEPS = Path(__file__).parents[2] / "examples" / "cluster" / "steps.sh"


def test_a_run_without_candidates_is_said_and_where_to_look(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/bin/sh\ncase "$*" in *recentRunRefs*) echo chat-run-1 ;; *candidateRefs*) ;; *) exit 9 ;; esac\n'
    )
    kubectl.chmod(0o755)
    done = subprocess.run(
        [STEPS, "result"],
        env={**os.environ, "KUBECTL": str(kubectl)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "run chat-run-1 has no candidates" in done.stderr
    assert "describe --namespace retune-example dgdrrun/chat-run-1" in done.stderr
