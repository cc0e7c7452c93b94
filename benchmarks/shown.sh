#!/usr/bin/env bash
# The long demonstrations: what takes too long for CI. Each writes its output to benchmarks/results, beside what
# machine it ran on. PYTHON names an interpreter with fasthop; PYTHON_TORCH_SPARSE one that has torch-sparse as
# well, for the comparison of samplers; PLANETOID the folder that holds Cora/raw.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
results=benchmarks/results
mkdir -p "$results"
status=0

shown() { # shown NAME COMMAND...: the output goes to a file beside, and takes the name only once it is whole
  local name=$1
  shift
  echo "== $name"
  if "$@" 2>&1 | tee "$results/$name.part"; then
    mv "$results/$name.part" "$results/$name"
  else
    status=1
    echo "$name failed; its output is in $results/$name.part" >&2
  fi
}

shown profile_aa.txt "$PYTHON" benchmarks/profile_aa.py
shown compare_aa.txt "$PYTHON" benchmarks/compare_aa.py
shown accuracy.txt "$PYTHON" benchmarks/accuracy.py ${PLANETOID:+--root "$PLANETOID"}
shown spmm.txt "$PYTHON" benchmarks/spmm.py
shown attention.txt "$PYTHON" benchmarks/attention.py
shown faults.txt "$PYTHON" benchmarks/faults.py
shown fuzz_readers.txt "$PYTHON" benchmarks/fuzz_readers.py
shown break_even.txt "$PYTHON" benchmarks/break_even.py
# On an idle machine: half an hour, and as much for the plans of tune.
shown predictions.txt "$PYTHON" benchmarks/predictions.py ${PLANETOID:+--root "$PLANETOID"}
shown tune.txt "$PYTHON" benchmarks/tune.py ${PLANETOID:+--root "$PLANETOID"}
# About half an hour, on an idle machine with 24 GB; its SparseTensor row wants an interpreter with torch-sparse.
shown exact.txt env PYTHONPATH=src "${PYTHON_TORCH_SPARSE:-$PYTHON}" benchmarks/exact.py ${PLANETOID:+--root "$PLANETOID"}
if [ -n "${PYTHON_TORCH_SPARSE:-}" ]; then
  shown sampling.txt env PYTHONPATH=src "$PYTHON_TORCH_SPARSE" benchmarks/sampling.py
else
  echo "== sampling.txt is left as it is: PYTHON_TORCH_SPARSE names no interpreter with torch-sparse"
fi
exit $status
