// OutputFolder: a folder for results, made before the work that they come from.
//
// Where nothing can be written is known at once, not after minutes of measuring. If nothing was, because the
// work failed, the folder is gone again.
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
  // With the names of the files that will be written. Throws where one of them cannot be.
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
