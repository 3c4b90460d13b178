#!/usr/bin/env bash
# Every comparison on a CPU, one program after the other, so that all figures are of one machine and one commit; then the
# tables of bench/README.md. Each stage has its log and its exit status, and a failed one does not stop the next.
#
#   PYTHON=venv/bin/python bench/cpu_session.sh      all stages, with 2 threads and with 1
#   THREADS=2 bench/cpu_session.sh gemm ops          only these
#
#   build       bench_gemm bench_gemm_narrow bench_gemv bench_ops bench_gpt2, Release
#   gemm        products of f32 against OpenBLAS and Eigen
#   narrow      products of bytes and bf16 against oneDNN
#   gemv        weights of 32, 16, 8 and 4 bits against reading them
#   ops         every function, convolutions, attention, AdamW and an epoch of digits against PyTorch
#   layers      convolutions beyond two dimensions, recurrent layers, masks, statistics, losses, optimizers against PyTorch
#   gpt2        a training step of GPT-2 124M against PyTorch, with its fused AdamW
#   overhead    functions of one element
#   report      bench/cpu_report.py --write
#
# Settings by environment: THREADS ("2 1"), BUILD (build), LOGS (BUILD/cpu_session), PYTHON (one with torch and safetensors),
# ROUNDS (9), ONEDNN and OPENBLAS (their libraries), RESULTS (bench/results; a folder of its own for another
# machine: see MACHINES in cpu_report.py).
# Threads are pinned by OMP_PROC_BIND; what is measured with all threads is written to RESULTS, with one to RESULTS/one_thread.
# shellcheck disable=SC2317
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build} PYTHON=${PYTHON:-python3} ROUNDS=${ROUNDS:-9} THREADS=${THREADS:-2 1}
LOGS=${LOGS:-$BUILD/cpu_session} RESULTS=${RESULTS:-bench/results}
ONEDNN=${ONEDNN:-libdnnl.so.2}
# The build for OpenMP, if it is there: the other one's threads would be pinned to the core of the one that starts them.
OPENBLAS=${OPENBLAS:-$(ls /usr/lib/*/openblas-openmp/libopenblas.so.0 2>/dev/null || echo libopenblas.so.0)}
cores=(--cores Haswell)
grep -q avx512f /proc/cpuinfo && cores+=(--cores SkylakeX)
export OMP_PROC_BIND=${OMP_PROC_BIND:-true}
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
bin=$BUILD/bin
mkdir -p "$LOGS"

into() { [ "$1" = 1 ] && echo "$RESULTS/one_thread" || echo "$RESULTS"; }
limited() { OMP_NUM_THREADS=$1 "${@:2}"; } # threads command

build() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S . -B "$BUILD" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$BUILD" -j "$(nproc)" --target bench_gemm bench_gemm_narrow bench_gemv bench_ops bench_gpt2
}
gemm() {
  limited "$1" "$bin/bench_gemm" --rounds "$ROUNDS" --openblas "$OPENBLAS" "${cores[@]}" \
    --json "$(into "$1")/gemm_cpu.json"
}
narrow() {
  limited "$1" "$bin/bench_gemm_narrow" --rounds "$ROUNDS" --onednn "$ONEDNN" --json "$(into "$1")/gemm_narrow_cpu.json"
}
gemv() { limited "$1" "$bin/bench_gemv" --json "$(into "$1")/gemv_cpu.json"; }
ops() {
  "$PYTHON" bench/compare_ops.py --bench "$bin/bench_ops" --python "$PYTHON" --threads "$1" --rounds "$ROUNDS" \
    --out "$(into "$1")/ops_cpu.json"
}
layers() { # what cpu_report.py lists in LAYERS
  "$PYTHON" bench/compare_ops.py --bench "$bin/bench_ops" --python "$PYTHON" --threads "$1" --rounds "$ROUNDS" --sizes 4194304 \
    --only conv1d conv3d conv_transpose interpolate einsum masked_select nonzero "rows of a mask" repeat roll median quantile \
    unique histc multinomial cdist "cov " huber kl_div "bce_with_logits 4M" triplet LSTM GRU RNN Multihead amsgrad "sgd " rmsprop \
    adagrad --out "$(into "$1")/layers_cpu.json"
}
gpt2() {
  "$PYTHON" bench/compare_gpt2.py --bench "$bin/bench_gpt2" --python "$PYTHON" --threads "$1" --rounds "$ROUNDS" --fused \
    --out "$(into "$1")/gpt2_cpu.json"
}
overhead() { limited "$1" "$bin/bench_ops" --sizes 1 --json "$(into "$1")/overhead_cpu.json"; }
report() { python3 bench/cpu_report.py --write; }

failed=0
run() { # stage, and what it takes
  local name=$1${2:+-$2-threads} start=$SECONDS
  "$@" >"$LOGS/$name.log" 2>&1
  local status=$?
  echo "$name: exit status $status, $((SECONDS - start)) s ($LOGS/$name.log)"
  [ $status = 0 ] || failed=1
}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(build gemm narrow gemv ops layers gpt2 overhead report)
for stage in "${stages[@]}"; do
  case $stage in
  build | report) run "$stage" ;;
  gemm | narrow | gemv | ops | layers | gpt2 | overhead)
    for threads in $THREADS; do
      mkdir -p "$(into "$threads")"
      run "$stage" "$threads"
    done
    ;;
  *)
    echo "cpu_session: there is no stage $stage; see the head of this file" >&2
    exit 2
    ;;
  esac
done
exit $failed
