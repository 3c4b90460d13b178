// ResultsFile: the JSON file into which a benchmark writes its numbers while it runs.
//
//     ResultsFile file(path);  // throws if the path cannot be written; an empty path writes nothing
//     for (...) rows.push_back(...), file.keep(all);
//     file.finish(all);
// Until finish() the numbers are in `path`.partial, always as complete JSON, and an older file at `path` does
// not change. So a reader never takes partial results for complete ones, and a benchmark that fails after an
// hour leaves the numbers that it has measured.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <tinytorch/io/file.hpp>
#include <utility>

namespace bench {

class ResultsFile {
 public:
  explicit ResultsFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) tinytorch::require_writable(path_);
  }
  std::string partial() const { return path_ + ".partial"; }

  void keep(const nlohmann::json& so_far) const {
    if (!path_.empty()) tinytorch::write_file(partial(), so_far.dump(1) + "\n");
  }
  void finish(const nlohmann::json& all) const {
    if (path_.empty()) return;
    tinytorch::write_file(path_, all.dump(1) + "\n");
    std::error_code none;  // no error if keep() was never called
    std::filesystem::remove(partial(), none);
  }

 private:
  std::string path_;
};

}  // namespace bench
