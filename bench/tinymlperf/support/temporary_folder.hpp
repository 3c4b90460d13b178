// A new folder with a name of its own, which every user may enter; gone with the object.
//
// A process that is killed leaves its folders. Each living owner has a lock on its folder, which the system
// releases at the owner's end, so the next process removes those that nobody owns any more.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace tinymlperf {

// Removes the folders of this kind and of this user in `parent` that have no owner, and have not changed for
// so long: an owner takes its lock a moment after it has made its folder. Returns their number.
inline int remove_abandoned_folders(const std::filesystem::path& parent,
                                    std::chrono::seconds unchanged = std::chrono::hours(1)) {
  int removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() != sizeof "tinymlperf-XXXXXX" - 1 || !name.starts_with("tinymlperf-")) continue;
    const int folder = open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) continue;
    struct stat about {};
    std::error_code ignored;
    if (fstat(folder, &about) == 0 && about.st_uid == geteuid() &&
        about.st_mtime + unchanged.count() <= std::time(nullptr) && flock(folder, LOCK_EX | LOCK_NB) == 0)
      removed += std::filesystem::remove_all(it->path(), ignored) > 0;
    close(folder);
  }
  return removed;
}

class TemporaryFolder {
 public:
  TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    static const int swept = remove_abandoned_folders(std::filesystem::temp_directory_path());
    (void)swept;
    std::string name = (parent / "tinymlperf-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::invalid_argument("cannot make a folder in " + parent.string());
    path_ = name;
    lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ >= 0) (void)flock(lock_, LOCK_EX | LOCK_NB);  // without it, the folder is as safe as its age
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
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
  int lock_ = -1;
};

}  // namespace tinymlperf
