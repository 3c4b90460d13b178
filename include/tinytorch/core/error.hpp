// Errors: one exception type, a stable code, the rule that was broken, a hint, and the caller's file and
// line.
//
//   throw by    fail("TT-SHAPE-02", "matmul: ...\n  hint: ...", loc);
//   look up     modules/tt explain TT-SHAPE-02
//
// `Loc` is taken as the last, defaulted parameter of every public function, so that a message points at the
// user's line and not into the library. (std::source_location is missing from clang 14, hence the builtins.)
// A layer of the library calls functions too: an error below it names the line that called the layer, and the
// layer.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

struct Loc {
  const char* file;
  int line;
  static constexpr Loc current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// A call that is going on on this thread and of which errors below it shall speak, such as a module's.
struct OngoingCall {
  const OngoingCall* outer = nullptr;
  Loc loc{"", 0};  // of the caller
  const void* callee = nullptr;
  // "blocks.3.attn.proj (Linear)", for the innermost call; it sees the outer ones, and throws nothing.
  std::string (*name)(const OngoingCall&) = nullptr;
};

// The innermost one of this thread, or null.
inline const OngoingCall*& ongoing_call() {
  thread_local const OngoingCall* call = nullptr;
  return call;
}

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

// Whether a line is the library's own: no user wants to be sent there.
inline bool is_inside_library(Loc loc) {
  return std::string_view(loc.file).find("include/tinytorch/") != std::string_view::npos;
}

// "CODE: text", the nearest line of the user's, and the module whose call led from there to `loc`.
inline std::string compose_message(const std::string& code, const std::string& text, Loc loc) {
  const auto shown = [](Loc at) { return std::string(at.file) + ":" + std::to_string(at.line); };
  const OngoingCall* const innermost = ongoing_call();
  const OngoingCall* user = is_inside_library(loc) ? innermost : nullptr;
  while (user && is_inside_library(user->loc)) user = user->outer;
  std::string message = code + ": " + text + "\n  at " + shown(user ? user->loc : loc);
  if (user) message += ", in " + shown(loc);
  if (!innermost) return message;
  ongoing_call() = nullptr;  // a name is made without names
  message += "\n  in " + innermost->name(*innermost);
  ongoing_call() = innermost;
  return message;
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
