#!/usr/bin/env bash
# Every test, for every family: the tier "full" of CONTRIBUTING.md, for a release and for changes of the core.
#
#   bash tests/run_full.sh             all tests but the scores, in parts of at most half an hour on two cores
#   bash tests/run_full.sh scores      every config that trains on a CPU reaches its score (hours)
#
# It runs in the environment of `pip install -e '.[dev,parity,plan,plan-gpu,docs,release]'`. What passed is kept by commit in
# ${XDG_CACHE_HOME:-~/.cache}/txjax-full, so that the same command resumes with the part where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "$(git status --porcelain)" ]; then
    echo "run_full.sh: expected a clean checkout, since results are kept by commit; commit or stash first" >&2
    exit 2
fi
results=${XDG_CACHE_HOME:-$HOME/.cache}/txjax-full/$(git rev-parse HEAD)
mkdir -p "$results"

# Runs a part of a tier, unless it has passed. Words after its name are for pytest.
part() {
    local name=$1 started=$SECONDS
    shift
    if [ -e "$results/$name.passed" ]; then
        echo "$name: passed before"
        return
    fi
    if ! timeout 1800 python -m pytest --full -n 2 "$@" > "$results/$name.log" 2>&1; then
        tail -n 40 "$results/$name.log"
        echo "$name: FAILED after $((SECONDS - started)) s; the whole output is in $results/$name.log" >&2
        exit 1
    fi
    mv "$results/$name.log" "$results/$name.passed"
    echo "$name: $(tail -n 1 "$results/$name.passed")"
}

# Runs a tier in a number of parts.
tier() {
    local name=$1 parts=$2 number
    for number in $(seq "$parts"); do
        part "$name-$number-of-$parts" -m "$3" --part="$number/$parts"
    done
}

if [ "${1:-tests}" = scores ]; then
    tier scores 28 score
else
    tier fast 4 "not slow and not mesh and not score"
    tier mesh 1 "mesh and not slow"
    tier slow 8 "slow and not mesh"
    tier slow-mesh 2 "slow and mesh"
fi
