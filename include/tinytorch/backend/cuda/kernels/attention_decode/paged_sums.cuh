// Sums of attention to a cache on tensor cores (attention_decode/paged_tensor.cuh): those of a warp, in
// registers; those of a split, which the warps of a block add in order; and those of a section, which lie in
// shared memory if the block has all its splits (attention_decode/splits.cuh).
#pragma once

#include <tinytorch/backend/cuda/kernels/attention_decode/paged_merge.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The online softmax of eight query rows over a warp's own tiles: lane l has rows l % 4 * 2 and the next, of
// scores those of tokens l / 4 and l / 4 + 8 of 16, of sums columns of the head likewise.
template <class Plan>
struct DecodeState {
  static constexpr float kNone = DecodeSums::kNone;
  static constexpr float kSlack = 8;
  static constexpr int kScores = Plan::kTokenTiles * 4;
  float base[2] = {kNone, kNone}, weight[2] = {}, sum[Plan::kHead / 16][4] = {};

  // score: exponents of 2, -infinity where the row does not see the token. They become 2^(score - base). The
  // base of a row rises only if a score is larger by kSlack, which is rare, so that most tiles need neither
  // shuffles nor new sums. It depends on no other row.
  __device__ __forceinline__ void exponentiate(float (&score)[Plan::kTokenTiles][4]) {
    float top[2] = {kNone, kNone};
#pragma unroll
    for (int i = 0; i < kScores; ++i) top[i % 2] = fmaxf(top[i % 2], score[i / 4][i % 4]);
    if (__any_sync(kAllLanes, top[0] > base[0] + kSlack || top[1] > base[1] + kSlack)) rise(top);
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) shift[r] = base[r] == kNone ? 0.0f : base[r];  // 2^-infinity is 0
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      float& x = score[i / 4][i % 4];
      x = exp2_approx(x - shift[i % 2]);
      weight[i % 2] += x;
    }
  }

 private:
  // top: the largest scores of this lane.
  __device__ __forceinline__ void rise(float (&top)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) top[r] = fmaxf(top[r], shuffle_xor(top[r], step));
      const float next = top[r] > base[r] + kSlack ? top[r] : base[r],
                  factor = next == base[r] ? 1.0f : exp2_approx(base[r] - next);
      base[r] = next;
      weight[r] *= factor;
#pragma unroll
      for (int j = 0; j < Plan::kHead / 16; ++j) sum[j][r] *= factor, sum[j][r + 2] *= factor;
    }
  }
};

// Writes this warp's sums of rows [begin, end) to shared memory, where the warps meet.
template <class Plan>
__device__ __forceinline__ void meet(float* meeting, int begin, int end,
                                     const DecodeState<Plan> (&state)[Plan::kTiles]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int m = 0; m < Plan::kTiles; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float weight = state[m].weight[r];
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) weight += shuffle_xor(weight, step);
      const int row = m * 8 + lane % 4 * 2 + r;
      if (row < begin || row >= end) continue;
      float* const to = meeting + (warp * Plan::kMeetingRows + row - begin) * Plan::kMeetingStride;
      if (lane < 4) to[Plan::kHead] = state[m].base[r], to[Plan::kHead + 1] = weight;
#pragma unroll
      for (int j = 0; j < Plan::kHead / 16; ++j) {
        const float low = state[m].sum[j][r], high = state[m].sum[j][r + 2];
        if constexpr (Plan::kIs16) {
          to[j * 16 + lane / 4] = low, to[j * 16 + lane / 4 + 8] = high;
        } else {  // widened pairs have every second column
          *reinterpret_cast<float2*>(to + j * 16 + lane / 4 * 2) = {low, high};
        }
      }
    }
  }
}

// The place where a row's sums of a split or a section go.
struct RowPlace {
  const StepRows<float>& out;
  float* partial;
  const KvView& kv;
  const DecodeCall& call;
  const DecodeSpan& at;

  // x: this lane's, of columns d to d + 3, of part `part` of row r.
  __device__ __forceinline__ void write(const DecodeSums& x, int r, int part, int d) const {
    const int size = static_cast<int>(kv.head_size);
    if (d >= size) return;
    if (at.parts(call) == 1)
      return write_average(out, at.row(r) * out.row + at.head(r) * out.head + d * out.col, x);
    const unsigned number = at.line(r) * static_cast<unsigned>(call.parts) + static_cast<unsigned>(part);
    float* const to = partial + static_cast<uint64_t>(number) * static_cast<unsigned>(kPartialHead + size);
    if (d == 0) *reinterpret_cast<float2*>(to) = {x.top, x.weight};
    store(to + kPartialHead + d, x.sum);
  }
};

// Adds the sums of the warps of row r of a split, and writes them or those of the section that ends with it.
// `meeting` has the row's sums of the first warp, `section` has memory for those of the section.
template <class Plan>
__device__ __forceinline__ void add_warps(const float* meeting, float* section, const RowPlace& place,
                                          int split, int r) {
  constexpr int kNext = Plan::kMeetingRows * Plan::kMeetingStride;  // from a warp's sums to the next one's
  DecodeSums all;
  float factor[Plan::kWarps];
#pragma unroll
  for (int w = 0; w < Plan::kWarps; ++w) all.top = fmaxf(all.top, meeting[w * kNext + Plan::kHead]);
  const float shift = all.top == DecodeSums::kNone ? 0.0f : all.top;
#pragma unroll
  for (int w = 0; w < Plan::kWarps; ++w) {
    const float* const its = meeting + w * kNext + Plan::kHead;
    factor[w] = exp2_approx(its[0] - shift);
    all.weight = fmaf(factor[w], its[1], all.weight);
  }
  const bool adds = Plan::kAddsSections && place.call.by_section,
             ends = split + 1 == place.at.own_splits || begins_section(split + 1);
  DecodeSums before;  // of the section
  if (adds && !begins_section(split))
    before.top = section[Plan::kHead], before.weight = section[Plan::kHead + 1];
  __syncwarp();
#pragma unroll
  for (int d = 4 * static_cast<int>(threadIdx.x % kWarp); d < Plan::kHead; d += 4 * kWarp) {
    float* const of_section = section + d;
    DecodeSums x = before;
    if (adds && !begins_section(split)) load(x.sum, of_section);
    all.sum[0] = all.sum[1] = all.sum[2] = all.sum[3] = 0;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) {
      float its[4];
      load(its, meeting + w * kNext + d);
#pragma unroll
      for (int i = 0; i < 4; ++i) all.sum[i] = fmaf(factor[w], its[i], all.sum[i]);
    }
    x.add(all);
    if (!adds || ends) {
      place.write(x, r, adds ? section_of(split) : split, d);
    } else {
      store(of_section, x.sum);
      if (d == 0) *reinterpret_cast<float2*>(section + Plan::kHead) = {x.top, x.weight};
    }
  }
}

// Adds the sums of the warps at the end of a split, some rows at a time. All threads of the block call it.
template <class Plan>
__device__ __forceinline__ void end_split(unsigned char* memory, const RowPlace& place, int split,
                                          const DecodeState<Plan> (&state)[Plan::kTiles]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, rows = place.at.rows;
  auto* const meeting = reinterpret_cast<float*>(memory + Plan::kMeetingAt);
  auto* const sections = reinterpret_cast<float*>(memory + Plan::kSectionsAt);
  for (int row = 0; row < rows; row += Plan::kMeetingRows) {
    __syncthreads();  // no warp reads what lies there any more
    meet<Plan>(meeting, row, min(row + Plan::kMeetingRows, rows), state);
    __syncthreads();
    if (const int r = row + warp; r < rows)
      add_warps<Plan>(meeting + warp * Plan::kMeetingStride, sections + r * Plan::kMeetingStride, place,
                      split, r);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
