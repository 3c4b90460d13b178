// Collects what is wrong with a file that describes a model, so that one error lists all of it.
#pragma once

#include <string>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

class ModelProblems {
 public:
  ModelProblems(std::string path, Loc loc) : path_(std::move(path)), loc_(loc) {}

  // A setting that contradicts the format.
  void malformed(std::string what) { malformed_.push_back(std::move(what)); }
  // A valid setting that would change the model's output and that this library does not have.
  void unsupported(std::string what) { unsupported_.push_back(std::move(what)); }
  void require(bool holds, const std::string& key, const std::string& value, const std::string& supported) {
    if (!holds) unsupported(key + " is " + value + ", supported: " + supported);
  }
  // Throws TT-IO-03 if a setting is malformed, else TT-IO-04 if one is not supported.
  void finish() const {
    if (malformed_.empty() && unsupported_.empty()) return;
    std::string message = "cannot build the model that '" + path_ + "' describes";
    for (const auto* list : {&malformed_, &unsupported_})
      for (const std::string& line : *list) message += "\n  " + line;
    fail(malformed_.empty() ? "TT-IO-04" : "TT-IO-03", message, loc_);
  }

 private:
  std::string path_;
  Loc loc_;
  std::vector<std::string> malformed_, unsupported_;
};

}  // namespace tinytorch::inline TT_BUILD
