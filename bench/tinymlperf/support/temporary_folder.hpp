// A new folder with a name of its own, which every user may enter; gone with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace tinymlperf {

class TemporaryFolder {
 public:
  TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "tinymlperf-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::invalid_argument("cannot make a folder in " + parent.string());
    path_ = name;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& inside) const { return path_ / inside; }
  // It stays, under another name, which must not be taken.
  void become(const std::filesystem::path& target) {
    std::filesystem::rename(path_, target);
    path_.clear();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tinymlperf
