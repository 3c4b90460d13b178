// Audio of synthetic clips as one tensor, for listening or for other features.
#pragma once

#include <cstdint>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::sound {

// f32 [clips, samples] in [-1, 1): record(i, wave) fills the 16-bit samples of clip i. Clips are recorded in
// parallel, so record() must not share state between them.
template <class Record>
Tensor waves_of(int64_t clips, int64_t samples, Record&& record, Loc loc) {
  Tensor out = empty({clips, samples}, DType::f32, cpu, loc);
  float* const waves = out.data<float>();
  parallel_for(clips, 4, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> wave(static_cast<size_t>(samples));
    for (int64_t i = begin; i < end; ++i) {
      record(i, wave.data());
      for (int64_t k = 0; k < samples; ++k)
        waves[i * samples + k] = static_cast<float>(wave[static_cast<size_t>(k)]) * 0x1p-15f;
    }
  });
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::sound
