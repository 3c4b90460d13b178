#!/usr/bin/env bash
# shellcheck disable=SC2317,SC2086,SC2016
# Everything that needs a GPU, in stages: each has its log and its exit status, and a failed one does not stop
# the next.
#
#   bench/cuda_session.sh                      configure build tests sanitize compare
#   bench/cuda_session.sh configure build      only these
#   TESTS='test_tensor_ops_softmax' bench/cuda_session.sh build tests
#
#   configure   CMake with TINYTORCH_WITH_CUDA=ON, Release
#   build       the library, bench_cuda and the chosen tests
#   tests       ctest: those of backend/cuda, then those of tensor, autograd, kv_cache, layers and transformer with the GPU as the
#               default device
#   sanitize    compute-sanitizer (memcheck, racecheck, initcheck, synccheck) on the tests of SANITIZE
#   compare     bench/compare_cuda.py against PyTorch
#
# Settings by environment: BUILD (build-cuda), LOGS (BUILD/session), JOBS, PYTHON (one with torch), COMMIT,
# CMAKE_ARGS, TESTS and SANITIZE (regular expressions of test names), TOOLS, COMPARE_ARGS, README (the
# file whose section is rewritten, for example bench/README.md; default: none).
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build-cuda}
LOGS=${LOGS:-$BUILD/session}
JOBS=${JOBS:-$(nproc)}
PYTHON=${PYTHON:-python3}
COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
TESTS=${TESTS:-^test_(backend_cuda|tensor|autograd|kv_cache|layers|transformer)_}
SANITIZE=${SANITIZE:-^test_(backend_cuda_kernels|tensor_ops|tensor_vjp)_}
TOOLS=${TOOLS:-memcheck racecheck initcheck synccheck}
mkdir -p "$LOGS"

listed() { (cd "$BUILD" && ctest -N "$@") | sed -n 's/^ *Test *#[0-9]*: *\([^ ]*\).*/\1/p'; }
names_of() { # regular expression -> names of tests; not NAME_cuda, NAME on the GPU
  { listed | sed 's/^/any /'; listed -R "$1" | sed 's/^/one /'; } |
    awk '$1 == "any" { is[$2] = 1; next }
         { base = $2; sub(/_cuda$/, "", base); name = base in is ? base : $2; if (!seen[name]++) print name }'
}
commands() { # name, program and arguments of every test, tabs between them
  (cd "$BUILD" && ctest --show-only=json-v1) | python3 -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    files = next((p["value"] for p in test["properties"] if p["name"] == "REQUIRED_FILES"), [])
    print(test["name"], *test.get("command", files), sep="\t")'  # of a program that is not built, only its path
}
command_of() { commands | awk -F '\t' -v name="$1" '$1 == name { print $2 "\t" $3 }'; } # program, then its argument
programs_of() { # names of tests on the input -> the targets that build them
  awk -F '\t' 'NR == FNR { wanted[$1] = 1; next } $1 in wanted { sub(/.*\//, "", $2); print $2 }' - <(commands) | sort -u
}

configure() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S . -B "$BUILD" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DTINYTORCH_WITH_CUDA=ON ${CMAKE_ARGS:-}
}

build() {
  nvcc --version | grep release
  local targets
  mapfile -t targets < <({ names_of "$TESTS"; names_of "$SANITIZE"; } | programs_of)
  [ ${#targets[@]} -gt 0 ] || echo "no tests are chosen or configured: only bench_cuda is built"
  # The kernels are one long compilation: it starts first, beside the others.
  time cmake --build "$BUILD" -j "$JOBS" --target tinytorch_cuda bench_cuda "${targets[@]}" -- -k 0
  local status=$?
  ls -l "$BUILD"/*tinytorch*.a "$BUILD"/bin/bench_cuda
  return $status
}

# Test programs exist only where the build succeeded; the others fail here by name.
tests() {
  local status=0
  [ -n "$(names_of "$TESTS")" ] || { echo "no test is called $TESTS: nothing is proved"; return 1; }
  (cd "$BUILD" && ctest -R "$TESTS" --exclude-regex '^test_(tensor|autograd|kv_cache|layers|transformer)_' -j 4 --timeout 300 \
    --no-tests=ignore --output-on-failure) || status=1
  echo "---- tensor, autograd, kv_cache, layers, transformer on the GPU"
  local others
  others=$({ listed | sed 's/^/any /'; names_of "$TESTS" | sed 's/^/one /'; } |
    awk '$1 == "any" { is[$2] = 1; next }
         $2 ~ /^test_(tensor|autograd|kv_cache|layers|transformer)_/ { print $2 "_cuda" in is ? $2 "_cuda" : $2 }' | paste -sd'|')
  if [ -n "$others" ]; then
    (cd "$BUILD" && ctest -R "^(${others})\$" -j 4 --timeout 300 --output-on-failure) || status=1
  fi
  return $status
}

# Tool and test; prints the log of a failure only. Few cases, for a tool is slow; without the allocator's cache, so that
# each tensor is an allocation that the tool knows.
sanitize_one() {
  local log status program argument
  IFS=$'\t' read -r program argument < <(command_of "$2")
  log=$(mktemp)
  TINYTORCH_TEST_FEW=1 TINYTORCH_CUDA_CACHE=0 TINYTORCH_TEST_DEVICE=cuda timeout 300 compute-sanitizer --tool "$1" --error-exitcode 99 \
    --print-limit 20 "$program" "$argument" >"$log" 2>&1
  status=$?
  if [ $status -eq 0 ]; then
    echo "ok      $1 $2: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -1)"
  else
    echo "FAILED  $1 $2, status $status"
    head -c 6000 "$log"
    echo
  fi
  rm -f "$log"
  return $status
}

sanitize() {
  command -v compute-sanitizer || { echo "compute-sanitizer is not on the PATH"; return 1; }
  [ -n "$(names_of "$SANITIZE")" ] || { echo "no test is called $SANITIZE: nothing is proved"; return 1; }
  export BUILD
  export -f sanitize_one command_of commands
  local tool
  for tool in $TOOLS; do
    names_of "$SANITIZE" | sed "s/^/$tool /"
  done | xargs -r -P "$((JOBS > 12 ? 12 : JOBS))" -L 1 bash -c 'sanitize_one "$1" "$2"' _
}

compare() {
  local readme=()
  [ -n "${README:-}" ] && readme=(--readme "$README")
  "$PYTHON" bench/compare_cuda.py --bench "$BUILD/bin/bench_cuda" --python "$PYTHON" --commit "$COMMIT" \
    --out "$LOGS/cuda.json" "${readme[@]}" ${COMPARE_ARGS:-}
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(configure build tests sanitize compare)
for stage in "${stages[@]}"; do
  case $stage in
    configure | build | tests | sanitize | compare) ;;
    *)
      echo "cuda_session: no stage '$stage'; there are: configure build tests sanitize compare" >&2
      exit 2
      ;;
  esac
done

summary=$LOGS/summary.txt
{
  date -u +%FT%TZ
  echo "commit $COMMIT"
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader 2>&1
} | tee "$summary"
failed=0
for stage in "${stages[@]}"; do
  echo "==== $stage"
  begin=$SECONDS
  "$stage" 2>&1 | tee "$LOGS/$stage.log" | tail -n 60
  status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || failed=1
  printf '%-10s status %s, %s s, log %s\n' "$stage" "$status" $((SECONDS - begin)) "$LOGS/$stage.log" >>"$summary"
done
echo "==== summary"
cat "$summary"
exit $failed
