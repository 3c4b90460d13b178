// Errors: one exception type with a stable code, the rule that was broken, a hint, and the caller's file and
// line.
//
//   throw      fail("TT-SHAPE-02", "matmul: ...\n  hint: ...", loc);
//   look up    modules/tt explain TT-SHAPE-02
//
// A public function takes `Loc` as its last, defaulted parameter, so that a message points at the user's line
// and not into the library. (clang 14 has no std::source_location, hence the builtins.) If the function was
// called by a layer of the library, the message gives the line that called the layer, and the layer's name.
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

// A call in progress on this thread that error messages shall mention, such as a module's forward().
struct OngoingCall {
  const OngoingCall* outer = nullptr;
  Loc loc{"", 0};  // the caller's file and line
  const void* callee = nullptr;
  // Returns, for example, "blocks.3.attn.proj (Linear)". It gets the innermost call, can follow `outer`, and
  // does not throw.
  std::string (*name)(const OngoingCall&) = nullptr;
};

// The innermost call in progress on this thread, or null.
inline const OngoingCall*& ongoing_call() {
  thread_local const OngoingCall* call = nullptr;
  return call;
}

class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message) : std::runtime_error(message), code_(std::move(code)) {}
  // Stable identifier such as "TT-SHAPE-02". It names the kind of mistake; the text may change.
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

// Thrown for a CUDA request in a build without CUDA; the library never falls back to the CPU silently.
class BuiltWithoutCuda : public Error {
 public:
  using Error::Error;
};

// True if the line belongs to the library, so that a message should not send the user there.
inline bool is_inside_library(Loc loc) {
  return std::string_view(loc.file).find("include/tinytorch/") != std::string_view::npos;
}

// "CODE: text", the innermost line of the user's own code, and the module whose call led from there to `loc`.
inline std::string compose_message(const std::string& code, const std::string& text, Loc loc) {
  const auto shown = [](Loc at) { return std::string(at.file) + ":" + std::to_string(at.line); };
  const OngoingCall* const innermost = ongoing_call();
  const OngoingCall* user = is_inside_library(loc) ? innermost : nullptr;
  while (user && is_inside_library(user->loc)) user = user->outer;
  std::string message = code + ": " + text + "\n  at " + shown(user ? user->loc : loc);
  if (user) message += ", in " + shown(loc);
  if (!innermost) return message;
  ongoing_call() = nullptr;  // an error inside name() must not call name() again
  message += "\n  in " + innermost->name(*innermost);
  ongoing_call() = innermost;
  return message;
}

[[noreturn]] inline void fail(const std::string& code, const std::string& text, Loc loc = Loc::current()) {
  throw Error(code, compose_message(code, text, loc));
}

// Body of a student's function that is not written yet: throws TT-TODO.
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
