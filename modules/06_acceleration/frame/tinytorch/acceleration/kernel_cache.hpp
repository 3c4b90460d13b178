// Compiled kernels on disk, shared by all processes of a user.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.15. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/io/sha256.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// An exclusive lock on a file, for all processes; it ends with the object or the process.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (file_.get() < 0) return;
    while (::flock(file_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return;
    }
    held_ = true;
  }
  bool held() const { return held_; }

 private:
  io::Descriptor file_;
  bool held_ = false;
};

inline std::string kernel_key(std::span<const std::string> texts);  // task 6.15

class KernelCache {
 public:
  static constexpr int64_t kDefaultLimit = int64_t{1} << 30;  // bytes

  // An empty folder name: no cache.
  explicit KernelCache(std::string folder, int64_t limit = kDefaultLimit)
      : folder_(std::move(folder)), limit_(limit) {
    if (folder_.empty()) {
      problem_ = "the kernel cache is off";
      return;
    }
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::path(folder_).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    make_private(folder_);
  }

  // $TINYTORCH_KERNEL_CACHE, else a folder below $XDG_CACHE_HOME or ~/.cache; empty if there is none.
  static std::string default_folder() {
    if (const char* chosen = std::getenv("TINYTORCH_KERNEL_CACHE"))
      return std::string_view(chosen) == "0" ? std::string() : chosen;
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    if (cache && cache[0] == '/') return std::string(cache) + "/tinytorch/kernels/v1";
    const char* const home = std::getenv("HOME");
    return home && home[0] == '/' ? std::string(home) + "/.cache/tinytorch/kernels/v1" : std::string();
  }

  bool usable() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }
  int bad_entries() const { return bad_; }
  std::string entry(const std::string& key) const { return shard(key) + "/" + key; }

  // The lock of a key; null if it cannot be had. Then nothing may be published.
  std::unique_ptr<FileLock> lock(const std::string& key) {
    if (!usable() || !private_folder(shard(key), true)) return nullptr;
    auto lock = std::make_unique<FileLock>(shard(key) + "/" + key + ".lock");
    return lock->held() ? std::move(lock) : nullptr;
  }

  std::optional<std::string> find(const std::string& key);        // task 6.15
  std::string building(const std::string& key) const;             // task 6.15
  bool publish(const std::string& key, const std::string& note);  // task 6.15

 private:
  static constexpr const char* kFiles[] = {"source.cpp", "kernel.so"};
  static constexpr uint64_t kMostBytes = 256u << 20;  // of one file

  std::string shard(const std::string& key) const { return folder_ + "/" + key.substr(0, 2); }

  // The text of meta.json: the note, and length and checksum of each file. The last checksum is of all that.
  static std::string meta_of(const std::string& folder, const std::string& note) {
    std::string files;
    for (const char* name : kFiles) {
      const std::vector<std::byte> bytes = read_file(folder + "/" + name, kMostBytes);
      Sha256 sum;
      sum.add(bytes);
      files += (files.empty() ? "\"" : ", \"") + std::string(name) +
               "\": {\"bytes\": " + std::to_string(bytes.size()) + ", \"sha256\": \"" + sum.hex() + "\"}";
    }
    Sha256 all;
    all.add(note), all.add(files);
    return "{\"note\": \"" + note + "\", \"files\": {" + files + "}, \"sha256\": \"" + all.hex() + "\"}\n";
  }
  static bool give_up(const std::string& folder) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    return false;
  }

  // True if the folder is a folder of this user that nobody else may enter. It is made if it is missing and
  // `make` is set.
  static bool private_folder(const std::string& folder, bool make) {
    if (make && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
    struct stat info {};
    return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 077) == 0;
  }
  void make_private(const std::string& folder) {
    struct stat info {};
    if (private_folder(folder, true)) return;
    problem_ =
        ::lstat(folder.c_str(), &info) != 0
            ? "the folder " + folder + " cannot be made"
            : "the folder " + folder + " is open to other users, or belongs to one (it needs mode 0700)";
  }

  // The note of an entry whose files have the recorded lengths and checksums.
  static std::optional<std::string> checked_note(const std::string& folder) {
    try {
      const std::vector<std::byte> meta = read_file(folder + "/meta.json", 1 << 16);
      const Json tree = parse_json(meta, "meta.json");
      const Json* const note = tree.find("note");
      if (!note || !note->string() || meta_of(folder, *note->string()) != as_text(meta)) return std::nullopt;
      return *note->string();
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  void set_aside(const std::string& key) const {
    std::error_code error;
    std::filesystem::remove_all(entry(key) + ".bad", error);
    std::filesystem::rename(entry(key), entry(key) + ".bad", error);
    if (error) std::filesystem::remove_all(entry(key), error);
  }

  void keep_limit(const std::string& kept) const;  // task 6.15

  std::string folder_, problem_;
  int64_t limit_;
  int bad_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration

#include <tasks/acceleration/kernel_cache.hpp>
