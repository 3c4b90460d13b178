// OutputFolder: a folder for results, which is made before the work begins.
//
// An error for a folder that cannot be written comes at once, not after minutes of measuring. If the work
// fails and writes nothing, the folder is removed.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <tinytorch/io/file.hpp>

namespace tinymlperf {

class OutputFolder {
 public:
  explicit OutputFolder(std::filesystem::path folder)
      : folder_(std::move(folder)), is_new_(std::filesystem::create_directories(folder_)) {}
  // Throws if one of these files, which are written later, cannot be written.
  OutputFolder(std::filesystem::path folder, std::initializer_list<const char*> files)
      : OutputFolder(std::move(folder)) {
    for (const char* name : files) tinytorch::require_writable((folder_ / name).string());
  }
  ~OutputFolder() {
    std::error_code not_empty;
    if (is_new_) std::filesystem::remove(folder_, not_empty);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::filesystem::path folder_;
  bool is_new_;
};

}  // namespace tinymlperf
