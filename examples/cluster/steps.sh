#!/usr/bin/env bash
# From a recorded window to ranked candidates on any cluster, step by step:
#
#   IMAGE=registry.example/dgdr-retune:0.1.0 examples/cluster/steps.sh            # all but the last two
#   examples/cluster/steps.sh install|claim|upload|ask|watch|result|clean|uninstall
#
# IMAGE is the project's image, where the cluster can pull it (tools/cluster/image.py makes one); WINDOW a file of recorded
# requests, by default the quickstart's, which `dgdr-retune cut examples/quickstart/retune.yaml` cuts. KUBECTL is the
# program that talks to the cluster. Each step can be run again.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../../deploy
kubectl=${KUBECTL:-kubectl}
image=${IMAGE:-registry.example/dgdr-retune:0.1.0}
window=${WINDOW:-$here/../quickstart/windows/chat/1796040000000.jsonl.gz}
example=(--namespace retune-example)
operator=(--namespace dgdr-retune)

show() { # show COMMAND…: print a command, then run it
  echo "+ $*" >&2
  "$@"
}

with_image() { # with_image FILE: a manifest with the image in place
  sed "s#registry.example/dgdr-retune:0.1.0#$image#" "$1"
}

install() { # the three kinds, and the operator; its manifests say what it may do
  show "$kubectl" apply --server-side -f "$deploy/crds"
  show "$kubectl" wait --for=condition=Established --timeout=1m crd/dynamographdeploymentruns.nvidia.com
  "$kubectl" create namespace dgdr-retune --dry-run=client -o yaml | show "$kubectl" apply -f -
  show "$kubectl" apply "${operator[@]}" -f "$deploy/operator/access.yaml"
  with_image "$deploy/operator/deployment.yaml" | show "$kubectl" apply "${operator[@]}" -f -
  show "$kubectl" rollout status "${operator[@]}" deployment/dgdr-retune-operator --timeout=5m
}

claim() { # a namespace, and the claim in it
  show "$kubectl" apply -f "$here/namespace.yaml" -f "$here/claim.yaml"
}

upload() { # the window onto the claim, readable by all; frontends that record on the claim need no such step
  [ -f "$window" ] || { echo "there is no $window: cut one, or set WINDOW" >&2; exit 1; }
  with_image "$here/upload.yaml" | show "$kubectl" apply -f -
  show "$kubectl" wait "${example[@]}" --for=condition=Ready --timeout=5m pod/upload
  local write='
import os, pathlib, shutil, sys
file = pathlib.Path("/claim/windows/chat.jsonl.gz")
file.parent.mkdir(exist_ok=True)
part = file.with_suffix(".part")
with part.open("wb") as target:
    shutil.copyfileobj(sys.stdin.buffer, target)
part.chmod(0o644)
part.rename(file)
'
  show "$kubectl" exec -i "${example[@]}" upload -- python -c "$write" <"$window"
  show "$kubectl" delete "${example[@]}" pod/upload
}

ask() { # the Request
  show "$kubectl" apply -f "$here/request.yaml"
}

watch() { # until its Run is done; `kubectl describe` says why one is not
  show "$kubectl" wait "${example[@]}" --for=condition=Accepted --timeout=1m dgdr/chat
  local run names='{.status.activeRunRef.name} {.status.recentRunRefs[*].name}'
  read -r run _ <<<"$("$kubectl" get "${example[@]}" dgdr/chat -o "jsonpath=$names")"
  show "$kubectl" wait "${example[@]}" --for=condition=Completed --timeout=30m "dgdrrun/$run"
  show "$kubectl" get "${example[@]}" dgdr,dgdrrun,job,pod
}

result() { # the candidates, the best first, and the first one as it would be deployed
  local run ranked
  run=$("$kubectl" get "${example[@]}" dgdr/chat -o 'jsonpath={.status.recentRunRefs[0].name}')
  read -r -a ranked <<<"$("$kubectl" get "${example[@]}" "dgdrrun/$run" -o 'jsonpath={.status.candidateRefs[*].name}')"
  if [ ${#ranked[@]} -eq 0 ]; then
    echo "run $run has no candidates; '$kubectl describe ${example[*]} dgdrrun/$run' says why" >&2
    exit 1
  fi
  local knobs='.spec.parameters.adapters.dynamo\.router' metrics=.status.metrics
  show "$kubectl" get "${example[@]}" dgdc "${ranked[@]}" -o "custom-columns=NAME:.metadata.name,\
CREDIT:$knobs.overlap_score_credit,SCALE:$knobs.prefill_load_scale,TEMPERATURE:$knobs.temperature,\
TTFT_MS:$metrics.mean_ttft_ms,E2E_MS:$metrics.mean_e2e_latency_ms"
  show "$kubectl" get "${example[@]}" dgdc "${ranked[0]}" -o yaml
}

clean() { # the Request first: its Run, Job and candidates go with it, and the claim is let go
  show "$kubectl" delete "${example[@]}" --ignore-not-found --timeout=5m dgdr/chat
  show "$kubectl" delete "${example[@]}" --ignore-not-found --timeout=5m pvc/request-traces
  show "$kubectl" delete --ignore-not-found --timeout=5m -f "$here/namespace.yaml"
}

uninstall() { # the operator last: without it nobody lets claims go. Removing the kinds removes every Request of the cluster.
  show "$kubectl" delete --ignore-not-found namespace/dgdr-retune --timeout=5m
  show "$kubectl" delete --ignore-not-found "${operator[@]}" -f "$deploy/operator/access.yaml"
  show "$kubectl" delete --ignore-not-found --timeout=5m -f "$deploy/crds"
}

for step in "${@:-install claim upload ask watch result}"; do
  for each in $step; do
    case $each in
      install | claim | upload | ask | watch | result | clean | uninstall) "$each" ;;
      *) echo "no step $each; see the top of $0" >&2; exit 2 ;;
    esac
  done
done
