// Progress: a bar that is redrawn on a terminal. In files and CI logs only the line of each epoch is written.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

class Progress {
 public:
  // If out is null, nothing is written.
  explicit Progress(std::FILE* out) : out_(out), terminal_(out && isatty(fileno(out)) != 0) {}
  Progress(std::FILE* out, bool terminal) : out_(out), terminal_(out && terminal) {}

  // Shows `done` of `total` and a short text, at most ten times a second.
  void update(int64_t done, int64_t total, const std::string& text) {
    if (!terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    constexpr int64_t kWidth = 30;
    const int64_t filled = total > 0 ? std::clamp<int64_t>(kWidth * done / total, 0, kWidth) : 0;
    const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                            std::string(static_cast<size_t>(kWidth - filled), '.');
    std::fprintf(out_, "\r\x1b[K[%s] %lld/%lld  %s", bar.c_str(), static_cast<long long>(done),
                 static_cast<long long>(total), text.c_str());
    std::fflush(out_);
    drawn_ = true;
  }
  // Writes a line that later updates do not overwrite.
  void line(const std::string& text) {
    if (!out_) return;
    std::fprintf(out_, "%s%s\n", drawn_ ? "\r\x1b[K" : "", text.c_str());
    std::fflush(out_);
    drawn_ = false;
  }

 private:
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tinytorch::inline TT_BUILD
