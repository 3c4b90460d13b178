// Errors: one exception type, a stable code, the rule that was broken, a hint, and the caller's file and
// line.
//
//   throw by    fail("TT-SHAPE-02", "matmul: ...\n  hint: ...", loc);
//   look up     modules/tt explain TT-SHAPE-02
//
// `Loc` is taken as the last, defaulted parameter of every public function, so that a message points at the
// user's line and not into the library. (std::source_location is missing from clang 14, hence the builtins.)
#pragma once

#include <stdexcept>
#include <string>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

struct Loc {
  const char* file;
  int line;
  static constexpr Loc current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message) : std::runtime_error(message), code_(std::move(code)) {}
  // Stable identifier such as "TT-SHAPE-02": the class of mistake, not the text.
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

// A CUDA request in a build without CUDA. Never answered by a silent CPU fallback.
class BuiltWithoutCuda : public Error {
 public:
  using Error::Error;
};

inline std::string compose_message(const std::string& code, const std::string& text, Loc loc) {
  return code + ": " + text + "\n  at " + loc.file + ":" + std::to_string(loc.line);
}

[[noreturn]] inline void fail(const std::string& code, const std::string& text, Loc loc = Loc::current()) {
  throw Error(code, compose_message(code, text, loc));
}

// Stands in a student's header where a function of a task is not written yet.
[[noreturn]] inline void todo(const char* task, const char* name) {
  throw Error("TT-TODO", std::string("TT-TODO: TODO(") + task + ") " + name +
                             " is not written yet\n  hint: modules/tt hint " + task);
}

[[noreturn]] inline void fail_without_cuda(const std::string& op, Loc loc = Loc::current()) {
  throw BuiltWithoutCuda(
      "TT-CUDA-01",
      compose_message("TT-CUDA-01",
                      op +
                          ": this program was built without CUDA\n  hint: configure with "
                          "-DTINYTORCH_WITH_CUDA=ON and link tinytorch::cuda, or keep the tensors on the CPU",
                      loc));
}

}  // namespace tinytorch::inline TT_BUILD
