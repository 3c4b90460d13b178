// ResultsFile: where a bench keeps its numbers while it measures.
//
//   ResultsFile file(path);                    throws at once where nothing can be written; "": nothing is
//   kept for (...) rows.push_back(...), file.keep(all); file.finish(all);
// Until finish() they stand in `path`.partial, whole at each moment, and an older file of that name stays as
// it is: whoever reads results never takes a part for all of them, and a bench that breaks off after an hour
// leaves what it measured.
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
    std::error_code none;  // nothing was kept before
    std::filesystem::remove(partial(), none);
  }

 private:
  std::string path_;
};

}  // namespace bench
