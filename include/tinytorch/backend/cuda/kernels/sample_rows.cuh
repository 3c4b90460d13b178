// Sampling of one token from each row of logits (contract: backend/cpu/sample_rows.hpp; weights:
// backend/sample_weights.hpp). A block has a row, and computes the weights again in each pass over it,
// because those of a large vocabulary do not fit a multiprocessor.
//
// No row is sorted. The weight at which the k-th token, or a share of the probability, is reached is found
// digit by digit: a histogram of the highest 11 bits tells in which range of weights it is, and the next
// histogram is of that range alone. The token is found in the same way, by its place in the row: the warps
// add parts of the row, and then parts of the part in which the sum reaches the drawn number.
//
// Limit: about two passes over the logits without filters, and four more for each of top-k and top-p.
#pragma once

#include <bit>
#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/sample_weights.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSampleThreads = 1024, kSampleWarps = kSampleThreads / kWarp;
inline constexpr int kSampleDigit = 11, kSampleBuckets = 1 << kSampleDigit;
static_assert(kSampleBuckets == 2 * kSampleThreads && kSampleWarps == kWarp);

// The weights of a row of logits.
template <class T>
struct SampleRow {
  const T* logits;
  int tokens;
  Compute<T> top;
  double powers;         // log2(e) / temperature
  float powers_of[2]{};  // the same as the sum of two floats, which need no slow conversion

  __device__ __forceinline__ SampleRow(const T* row, int64_t V, Compute<T> largest, double temperature)
      : logits(row), tokens(static_cast<int>(V)), top(largest), powers(1.4426950408889634 / temperature) {
    powers_of[0] = static_cast<float>(powers);
    powers_of[1] = static_cast<float>(powers - static_cast<double>(powers_of[0]));
  }
  __device__ __forceinline__ uint64_t weight(int i) const { return weight_of(logits[i]); }
  __device__ __forceinline__ uint64_t weight_of(T logit) const {
    const Compute<T> x = to<Compute<T>>(logit);
    if (x == top) return uint64_t{1} << kSampleWeightBits;
    if constexpr (sizeof(T) == 8) {
      const double power = (x - top) * powers, whole = rint(power);
      return power < kLeastPower ? 0 : weight_of(static_cast<int>(whole), static_cast<float>(power - whole));
    } else {
      constexpr float kRounds = 0x1.8p23f;  // a sum with it has no bits behind the point
      const float below = x - top, power = below * powers_of[0],
                  error = fmaf(below, powers_of[1], fmaf(below, powers_of[0], -power));
      const float shifted = power + kRounds, whole = shifted - kRounds;
      return power < kLeastPower
                 ? 0
                 : weight_of(
                       static_cast<int>(std::bit_cast<unsigned>(shifted) - std::bit_cast<unsigned>(kRounds)),
                       power - whole + error);
    }
  }
  // Calls f(weight) for all tokens, in all threads of a warp together: for threads that have no token left,
  // the weight is 0. The loads of several tokens are on the way at the same time.
  template <class F>
  __device__ __forceinline__ void for_each(F&& f) const {
    constexpr int kTogether = 4;
    for (int first = 0; first < tokens; first += kTogether * kSampleThreads) {
      T x[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * kSampleThreads + static_cast<int>(threadIdx.x);
        x[j] = i < tokens ? logits[i] : cuda::to<T>(-std::numeric_limits<double>::infinity());
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
        if (first + j * kSampleThreads < tokens) f(weight_of(x[j]));
    }
  }

 private:
  static constexpr float kLeastPower = -(kSampleWeightBits + 2);  // less give weight 0
  // 2^(whole + rest), for whole numbers up to 0 and a rest from -1/2 to 1/2.
  static __device__ __forceinline__ uint64_t weight_of(int whole, float rest) {
    const auto bits = std::bit_cast<unsigned>(exp2_approx(rest));
    const uint64_t digits = (bits & 0x7fffffu) | 0x800000u;  // 24 of them
    const int shift = static_cast<int>(bits >> 23) - 127 + whole + kSampleWeightBits - 23;
    return shift >= 0 ? digits << shift : digits >> -shift;
  }
};

// Amounts of a bucket as sums of 32 bits, because the device has no addition of 64 bits in shared memory that
// does not read first. Weights in a bucket differ in their last `shift` bits. These are added in pieces of
// ten bits, so that no sum of kMostSampleTokens pieces overflows.
inline constexpr int kSamplePieceBits = 10, kSamplePieces = 3;
static_assert(kMostSampleTokens << kSamplePieceBits <= int64_t{1} << 32);
static_assert(kSampleWeightBits + 1 - kSampleDigit <= kSamplePieces * kSamplePieceBits);
struct SampleHistogram {
  unsigned count[kSampleBuckets], piece[kSamplePieces][kSampleBuckets];

  __device__ __forceinline__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < kSampleBuckets; i += kSampleThreads) {
      count[i] = 0;
#pragma unroll
      for (auto& sums : piece) sums[i] = 0;
    }
  }
  // Adds tokens of a bucket, whose last bits sum to `last`.
  template <bool kCounts>
  __device__ __forceinline__ void add(int bucket, unsigned tokens, uint64_t last, int shift) {
    atomicAdd(&count[bucket], tokens);
    if constexpr (!kCounts) {
#pragma unroll
      for (int i = 0; i < kSamplePieces; ++i) {
        const int first = i * kSamplePieceBits;
        const unsigned bits = i + 1 == kSamplePieces ? ~0u : (1u << kSamplePieceBits) - 1;
        if (first < shift) atomicAdd(&piece[i][bucket], static_cast<unsigned>(last >> first) & bits);
      }
    }
  }
  // The number of tokens of a bucket, or the sum of their weights, of which the least is `least`.
  template <bool kCounts>
  __device__ __forceinline__ uint64_t amount(int bucket, uint64_t least) const {
    uint64_t sum = kCounts ? count[bucket] : count[bucket] * least;
    if constexpr (!kCounts) {
#pragma unroll
      for (int i = 0; i < kSamplePieces; ++i) sum += uint64_t{piece[i][bucket]} << i * kSamplePieceBits;
    }
    return sum;
  }
};

// The histogram of a digit, and messages between the threads of the block.
struct SampleMemory {
  SampleHistogram histogram;
  uint64_t of_warp[kSampleWarps];
  uint64_t ties_of_warp[kSampleWarps];
  uint64_t above;
  int bucket;
};

// The largest weight at which the amounts of the tokens of that weight and of larger ones reach `goal`, and
// the sum of the amounts of the larger ones. An amount is 1, or the weight itself.
struct SampleBoundary {
  uint64_t weight, above;
};

// The first weight of the bucket of the histogram in which the sum, from the highest bucket on, reaches
// `goal`, and the sum of all weights above that bucket. `range`: the same for all buckets together. Bucket 0,
// which is not counted, has all tokens that no other has.
template <bool kCounts>
__device__ __forceinline__ SampleBoundary boundary_bucket(SampleMemory& m, SampleBoundary range, int shift,
                                                          uint64_t goal) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int high = kSampleBuckets - 1 - 2 * thread, low = high - 1;
  const auto amount = [&](int bucket) {
    return m.histogram.amount<kCounts>(bucket, range.weight + (static_cast<uint64_t>(bucket) << shift));
  };
  const uint64_t first = amount(high), both = first + amount(low), up_to = warp_scan(both);
  if (lane == kWarp - 1) m.of_warp[warp] = up_to;
  if (thread == 0) m.bucket = 0;
  __syncthreads();
  const uint64_t of_warps = warp_scan(m.of_warp[lane]);
  const auto all = __shfl_sync(kAllLanes, of_warps, kWarp - 1);
  const uint64_t before =
      range.above + (warp == 0 ? 0 : __shfl_sync(kAllLanes, of_warps, warp - 1)) + up_to - both;
  if (thread == 0) m.above = range.above + all;
  __syncthreads();
  if (before < goal && before + both >= goal) {
    m.bucket = before + first >= goal ? high : low;
    m.above = m.bucket == high ? before : before + first;
  }
  __syncthreads();
  return {range.weight + (static_cast<uint64_t>(m.bucket) << shift), m.above};
}

template <bool kCounts, class T>
__device__ __forceinline__ SampleBoundary find_boundary(SampleMemory& m, const SampleRow<T>& row,
                                                        uint64_t goal) {
  SampleBoundary at{0, 0};
  for (int bits = kSampleWeightBits + 1; bits > 0;) {
    const int shift = bits > kSampleDigit ? bits - kSampleDigit : 0;
    __syncthreads();  // no thread reads the histogram of the digit before
    m.histogram.clear();
    __syncthreads();
    row.for_each([&](uint64_t weight) {
      const uint64_t within = weight - at.weight;
      const bool inside = within >> bits == 0;
      const int bucket = inside ? static_cast<int>(within >> shift) : 0;
      const uint64_t last = within - (static_cast<uint64_t>(bucket) << shift);
      // Tokens of equal probability, such as all of an untrained model, would wait for each other.
      if (__all_sync(kAllLanes, bucket == __shfl_sync(kAllLanes, bucket, 0))) {
        if (bucket == 0) return;
        const uint64_t sum = kCounts ? 0 : warp_reduce(last, Sum());
        if (threadIdx.x % kWarp == 0) m.histogram.add<kCounts>(bucket, kWarp, sum, shift);
      } else if (bucket > 0) {
        m.histogram.add<kCounts>(bucket, 1, last, shift);
      }
    });
    __syncthreads();
    at = boundary_bucket<kCounts>(m, at, shift, goal);
    bits = shift;
  }
  return at;
}

template <class T>
__device__ __forceinline__ SampleLimit apply_filters(SampleMemory& m, const SampleRow<T>& row,
                                                     const double* choice) {
  SampleLimit stay;
  const double k = choice[kTopK], share = choice[kTopP];
  if (k >= 1 && k < row.tokens) stay.require(find_boundary<true>(m, row, static_cast<uint64_t>(k)).weight);
  if (share < 1) {
    uint64_t total = 0;
    row.for_each([&](uint64_t weight) { total += weight >= stay.limit ? weight : 0; });
    const uint64_t goal = share_of_weights(share, block_reduce<kSampleThreads>(total, Sum()));
    const SampleBoundary at = find_boundary<false>(m, row, goal);
    stay.stop_at(at.weight, at.above, goal);
  }
  stay.require(least_weight(choice[kMinP]));
  return stay;
}

// The weights, larger than the limit, and the number of ties of a part of a row.
struct SamplePart {
  uint64_t weight = 0, ties = 0;
};

// Warp w adds the tokens [begin + w each, begin + (w + 1) each) that are before `end`. The result of lane w
// is that of warp w.
template <class T>
__device__ __forceinline__ SamplePart sum_parts(SampleMemory& m, const SampleRow<T>& row, uint64_t limit,
                                                int begin, int end, int each) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int first = begin + warp * each, last = first + each < end ? first + each : end;
  SamplePart own;
#pragma unroll 4
  for (int i = first + lane; i < last; i += kWarp) {
    const uint64_t weight = row.weight(i);
    own.weight += weight > limit ? weight : 0;
    own.ties += weight == limit ? 1 : 0;
  }
  own.weight = warp_reduce(own.weight, Sum());
  own.ties = warp_reduce(own.ties, Sum());
  __syncthreads();  // no thread reads the sums of the parts before
  if (lane == 0) m.of_warp[warp] = own.weight, m.ties_of_warp[warp] = own.ties;
  __syncthreads();
  return {m.of_warp[lane], m.ties_of_warp[lane]};
}

// The token whose weight, added to those of the tokens before it that stay, is the first larger than the
// drawn number.
template <class T>
__device__ __forceinline__ int find_token(SampleMemory& m, const SampleRow<T>& row, SampleLimit stay,
                                          double uniform) {
  uint64_t drawn = 0;
  bool is_drawn = false;
  int begin = 0, end = row.tokens;
  for (;;) {
    const int each = (end - begin + kSampleWarps - 1) / kSampleWarps;
    const SamplePart part = sum_parts(m, row, stay.limit, begin, end, each);
    const uint64_t ties_before = warp_scan(part.ties) - part.ties,
                   ties_left = stay.ties > ties_before ? stay.ties - ties_before : 0,
                   ties = part.ties < ties_left ? part.ties : ties_left;
    const uint64_t weight = part.weight + ties * stay.limit, up_to = warp_scan(weight);
    if (!is_drawn) {
      drawn = drawn_weight(uniform, __shfl_sync(kAllLanes, up_to, kWarp - 1));
      is_drawn = true;
    }
    const int at = __ffs(static_cast<int>(__ballot_sync(kAllLanes, up_to > drawn))) - 1;
    drawn -= __shfl_sync(kAllLanes, up_to - weight, at);
    stay.ties = __shfl_sync(kAllLanes, ties_left, at);
    begin += at * each;
    if (each == 1) return begin;
    end = begin + each < end ? begin + each : end;
  }
}

template <class T>
static __global__ void __launch_bounds__(kSampleThreads)
    sample_rows_kernel(int64_t* tokens, const T* logits, int64_t row_stride, int64_t V, const int64_t* best,
                       const T* largest, const double* choices) {
  __shared__ SampleMemory memory;
  start_next_kernel();
  wait_for_previous_kernel();
  const int64_t r = blockIdx.x;
  const double* const choice = choices + r * kSampleColumns;
  const double temperature = choice[kTemperature];
  const Compute<T> top = to<Compute<T>>(largest[r]);
  int64_t token = best[r];
  if (temperature > 0 && isfinite(top)) {  // as in the whole block
    const SampleRow<T> row(logits + r * row_stride, V, top, temperature);
    const SampleLimit stay = apply_filters(memory, row, choice);
    token = find_token(memory, row, stay, choice[kUniform]);
  }
  if (threadIdx.x == 0) tokens[r] = token;
}

void sample_rows(const View& tokens, const View& logits, const View& best, const View& largest,
                 const View& choices) {
  const Contiguous first(best), tops(largest);
  ContiguousOutput<int64_t> out(tokens);
  dispatch_stored(logits.dtype, [&]<class T>(T*) {
    launch(
        sample_rows_kernel<T>,
        {.grid = dim3(static_cast<unsigned>(logits.shape[0])), .block = dim3(kSampleThreads), .early = true},
        out.data(), logits.as<const T>(), logits.strides[0], logits.shape[1], first.as<const int64_t>(),
        tops.as<const T>(), choices.as<const double>());
  });
  out.write_back();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
