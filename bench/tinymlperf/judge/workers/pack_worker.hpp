// The worker that packs weights again, so that the judge compares bytes and reads no file of an entry itself:
//
//   worker FOLDER --replay BASELINE   the baseline's weights by the entry's quantizer.json
//   worker FOLDER --repack            the entry's own packed weights
// It writes packed.safetensors to its working directory.
#pragma once

#include <cstdio>
#include <tinymlperf/entries/packed_entry.hpp>

namespace tinymlperf::judge {

// `baseline` empty: --repack. The exit status.
inline int serve_pack_worker(const std::filesystem::path& entry, const std::filesystem::path& baseline) {
  try {
    pack_again(entry, baseline, kPackedFile);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace tinymlperf::judge
