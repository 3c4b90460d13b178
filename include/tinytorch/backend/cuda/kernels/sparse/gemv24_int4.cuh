// Products of a 2:4 sparse weight whose kept numbers have 4 bits (Int4Strips24) with rows of x of 16 bits, by
// sparse tensor cores of single warps (mma.sp).
//
// Operands are read from memory in the layout of the mma instruction, as in sparse/gemv24.cuh. Two
// instructions decode a pair of codes exactly, and the scale of a row is applied to the sums of 128 columns.
// Limit: bytes of codes, places and scales, 1/5.12 of those of the dense weight, over copy bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/blocks.cuh>
#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>
#include <tinytorch/backend/cuda/kernels/sparse/gemv24.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A lane's codes and places of the two parts that share scales, and the scales of its rows g and g + 8.
struct Int4Group {
  uint2 codes[2];
  unsigned places[2];
  Half scale[2];

  // `strip`: the first byte of the strip; `scales`: its first scale. A part beyond the last is zeros.
  __device__ __forceinline__ void load(const uint8_t* strip, const uint16_t* scales, int i, int parts) {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const bool inside = 2 * i + p < parts;
      const uint8_t* const part = strip + (2 * i + p) * Int4Strips24::kPartBytes;
      codes[p] = inside ? *reinterpret_cast<const uint2*>(part + lane * 8) : make_uint2(kZeros, kZeros);
      places[p] = inside ? load_word_once(part + Int4Strips24::kPlacesAt + lane * 4)
                         : Strips24::kFirstTwo << 16 | Strips24::kFirstTwo;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = i * 16 + static_cast<int>(lane) / 4 + half * 8;
      scale[half].bits = 2 * i < parts ? scales[at] : uint16_t{0};
    }
  }

 private:
  static constexpr unsigned kZeros = 0x88888888u;
};

template <class T, class Tile>
static __global__ void __launch_bounds__(Tile::kThreads)
    gemv_sparse24_int4_kernel(const __grid_constant__ StripsProduct p, const uint16_t* scales,
                              const __grid_constant__ LinearResult to) {
  constexpr int kAhead = Tile::kAhead, kDeep = Tile::kDeep;
  __shared__ float sums[kDeep * Tile::kColumns * 17];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t strip = blockIdx.x, m0 = static_cast<int64_t>(blockIdx.y) * Tile::kColumns;
  const int groups = ceil_div(p.parts, 2);
  const uint8_t* const codes = p.strips + strip * p.parts * Int4Strips24::kPartBytes;
  const uint16_t* const own_scales = scales + strip * groups * 16;
  const T* row[Tile::kTiles];
#pragma unroll
  for (int n = 0; n < Tile::kTiles; ++n) {
    const int64_t m = m0 + n * 8 + lane / 4;
    row[n] = m < p.M ? static_cast<const T*>(p.x) + m * p.x_row : nullptr;
  }
  float sum[Tile::kTiles][4] = {};
  for (int first = warp; first < groups; first += kDeep * kAhead) {
    Int4Group group[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) group[a].load(codes, own_scales, first + a * kDeep, p.parts);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float part_sum[Tile::kTiles][4] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k0 = ((first + a * kDeep) * 2 + i) * static_cast<int>(Strips24::kDepth) + lane % 4 * 2;
        unsigned kept[2][4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          kept[0][j] = pair_of_nibbles<T, 8>(group[a].codes[i].x >> (4 * j) & 0x000f000fu);
          kept[1][j] = pair_of_nibbles<T, 8>(group[a].codes[i].y >> (4 * j) & 0x000f000fu);
        }
#pragma unroll
        for (int n = 0; n < Tile::kTiles; ++n) {
          unsigned b_fragment[2][4];
          load_b(b_fragment, row[n], k0, p.K);
          multiply_add_sparse<T, 0>(part_sum[n], kept[0], b_fragment[0], group[a].places[i]);
          multiply_add_sparse<T, 1>(part_sum[n], kept[1], b_fragment[1], group[a].places[i]);
        }
      }
      const float scale[2] = {cuda::to<float>(group[a].scale[0]), cuda::to<float>(group[a].scale[1])};
#pragma unroll
      for (int n = 0; n < Tile::kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[n][e] = fmaf(scale[e / 2], part_sum[n][e], sum[n][e]);
      }
    }
  }
  strip_epilogue<Tile>(p, to, sums, sum, m0, strip * Strips24::kRows);
}

// A warp quantizes and orders the 128 columns of a strip that share scales. The number of the largest
// magnitude of a row becomes code 0, which is -8.
template <class T>
static __global__ void __launch_bounds__(128)
    strips24_int4_kernel(uint8_t* codes, uint16_t* scales, const T* values, const uint16_t* places, int64_t N,
                         int64_t K, int64_t groups, int64_t warps) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x) / kWarp;
  if (i >= warps) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const int64_t group = i % groups, strip = i / groups, half_K = K / 2;
  const auto value = [&](int row, int64_t at) {  // kept number `at` of a row
    const int64_t n = strip * Strips24::kRows + row;
    return n < N && at < half_K ? to<float>(values[n * half_K + at]) : 0.0f;
  };
  // Two lanes find the scale of a row.
  float most = 0, bad = 0;
  for (int j = 0; j < 32; ++j) {
    const float v = value(lane / 2, group * 64 + lane % 2 * 32 + j);
    most = fabsf(v) > fabsf(most) ? v : most;
    bad += v - v;
  }
  const float other = __shfl_xor_sync(0xffffffffu, most, 1);
  // If two magnitudes are equal, the number of the even lane is taken.
  const bool takes = lane % 2 == 0 ? fabsf(other) > fabsf(most) : fabsf(other) >= fabsf(most);
  most = takes ? other : most;
  bad += __shfl_xor_sync(0xffffffffu, bad, 1);
  const Half scale = to<Half>(most / -8.0f + bad);
  if (lane % 2 == 0) scales[i * 16 + lane / 2] = scale.bits;
  const float wide = to<float>(scale), inverse = wide != 0 && bad == 0 ? 1.0f / wide : 0.0f;
  float of_row[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) of_row[half] = __shfl_sync(0xffffffffu, inverse, 2 * (g + 8 * half));
  const int64_t words = ceil_div(K, 16), parts = ceil_div(K, 64);
  for (int64_t p = 2 * group; p < 2 * group + 2 && p < parts; ++p) {
    unsigned word[2] = {}, four = 0;
    for (int j = 0; j < 8; ++j) {  // product j / 4, register j % 4
      const int half = j % 2;
      const int64_t at = p * 32 + (t + j / 2 * 4) * 2;
      for (int k = 0; k < 2; ++k) {
        const float factor = of_row[half];
        const float code = factor != 0 ? floorf(fmaf(value(g + half * 8, at + k), factor, 8.5f)) : 8.0f;
        const auto clipped = static_cast<unsigned>(code >= 0 ? (code < 15 ? code : 15) : 0);
        word[j / 4] |= clipped << (4 * (j % 4) + 16 * k);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const int64_t n = strip * Strips24::kRows + g + half * 8, at = p * 4 + t;
      four |= (n < N && at < words ? places[n * words + at] : Strips24::kFirstTwo) << (16 * half);
    }
    uint8_t* const part = codes + (strip * parts + p) * Int4Strips24::kPartBytes;
    *reinterpret_cast<uint2*>(part + lane * 8) = make_uint2(word[0], word[1]);
    *reinterpret_cast<unsigned*>(part + Int4Strips24::kPlacesAt + lane * 4) = four;
  }
}

// --- launchers ---

void strips24_int4(const View& codes, const View& scales, const View& values, const View& places) {
  const int64_t N = values.shape[0], K = values.shape[1] * 2, groups = ceil_div(K, Int4Strips24::kGroup);
  const int64_t warps = Strips24::count(N) * groups;
  if (warps == 0) return;
  dispatch_stored(values.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Compute<T>, float>) {
      launch(strips24_int4_kernel<T>, over(warps * kWarp, 128), codes.as<uint8_t>(), scales.as<uint16_t>(),
             values.as<const T>(), places.as<const uint16_t>(), N, K, groups, warps);
    }
  });
}

template <class T, int kTiles>
void launch_gemv_sparse24_int4(const StripsProduct& p, const View& scales, const LinearResult& to) {
  using Tile = FewRows24<kTiles>;
  const dim3 grid(static_cast<unsigned>(Strips24::count(p.N)),
                  static_cast<unsigned>(ceil_div(p.M, Tile::kColumns)));
  launch(gemv_sparse24_int4_kernel<T, Tile>, {grid, dim3(Tile::kThreads)}, p, scales.as<const uint16_t>(),
         to);
}

void linear_sparse24_int4(const View& out, const View& x, const View& codes, const View& scales,
                          const View& bias) {
  if (out.numel() == 0) return;
  require_sparse_tensor_cores();
  const auto run = [&]<class T>(T*) {
    const PaddedRows<T> rows(x);
    const StripsProduct p{codes.as<const uint8_t>(),
                          rows.data(),
                          rows.row(),
                          x.shape[0],
                          out.shape[1],
                          static_cast<int>(rows.columns()),
                          static_cast<int>(Strips24::parts(x.shape[1]))};
    const LinearResult to(out, bias);
    if (p.M <= 8) return launch_gemv_sparse24_int4<T, 1>(p, scales, to);
    if (p.M <= 16) return launch_gemv_sparse24_int4<T, 2>(p, scales, to);
    launch_gemv_sparse24_int4<T, 4>(p, scales, to);
  };
  if (x.dtype == DType::bf16) return run(static_cast<BFloat16*>(nullptr));
  run(static_cast<Half*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
