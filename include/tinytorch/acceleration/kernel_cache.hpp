// Compiled kernels on disk, shared by all processes of a user.
//
//   KernelCache cache(KernelCache::default_folder());
//   const auto lock = cache.lock(key);                    // two processes compile a kernel once
//   std::optional<std::string> folder = cache.find(key);  // holds the files as they were published
//   if (!folder) { build below cache.building(key); cache.publish(key, note); }
//
// Layout: <folder>/ab/<key>/{source.cpp, kernel.so, meta.json}, where ab are the first digits of the key. The
// key is a checksum of everything that decides what is compiled. A kernel is built in <key>.new and renamed,
// so that a reader finds all of it or nothing; what a killed process left is removed by the next builder.
//
// The folder holds code, so it must belong to the user and be closed to others (mode 0700); otherwise the
// cache is off. Length and SHA-256 of each file are compared before the file is used. An entry that differs
// is moved aside (<key>.bad) and built again. The entries that were not used for the longest time are removed
// when all together exceed the limit. The environment variable TINYTORCH_KERNEL_CACHE names the folder, or is
// 0 for none. No function throws: without a cache, kernels are compiled in each process.
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

// The key of a kernel: the SHA-256, as 64 hexadecimal digits, of all texts that decide what is compiled, such
// as the compiler, each flag, the processor and the source. Each text counts with its length, so that other
// texts whose concatenation is the same have another key.
inline std::string kernel_key(std::span<const std::string> texts) {
  Sha256 sum;
  for (const std::string& text : texts) sum.add(std::to_string(text.size()) + ":" + text);
  return sum.hex();
}

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

  // The note that was published with a key. The files are checked first (checked_note), and the entry and the
  // folder above it must be private. Nothing if there is no entry or the cache is not usable; nothing, too,
  // if the entry is damaged or open to others: then it is counted in bad_ and set aside. The time of
  // meta.json becomes now, because keep_limit() goes by it.
  std::optional<std::string> find(const std::string& key) {
    const std::string folder = entry(key);
    struct stat info {};
    if (!usable() || ::lstat(folder.c_str(), &info) != 0) return std::nullopt;
    std::optional<std::string> note;
    if (private_folder(shard(key), false) && private_folder(folder, false)) note = checked_note(folder);
    if (!note) {
      ++bad_;
      set_aside(key);
      return std::nullopt;
    }
    ::utimensat(AT_FDCWD, (folder + "/meta.json").c_str(), nullptr, 0);  // used now
    return note;
  }

  // The path of an empty folder of mode 0700, <entry>.new, in which the holder of the lock builds the entry.
  // What a killed process left there is removed. Empty text if the folder cannot be made.
  std::string building(const std::string& key) const {
    const std::string folder = entry(key) + ".new";
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    return ::mkdir(folder.c_str(), 0700) == 0 ? folder : std::string();
  }

  // Makes what was built in building()'s folder the entry of the key. `note` is a short text that find()
  // returns. The files are written to the disk (fsync) and recorded in meta.json before the folder gets its
  // name, so that a reader sees the whole entry or none. False if that failed; then <entry>.new is removed,
  // and no exception is thrown. An entry that was there before is replaced. Afterwards the limit is kept.
  bool publish(const std::string& key, const std::string& note) {
    const std::string folder = entry(key) + ".new";
    try {
      for (const char* name : kFiles) {
        const std::string file = folder + "/" + name;
        const io::Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (opened.get() < 0 || ::fsync(opened.get()) != 0) return give_up(folder);
      }
      write_file(folder + "/meta.json", std::string_view(meta_of(folder, note)));
      std::error_code error;
      std::filesystem::remove_all(entry(key), error);
      if (::rename(folder.c_str(), entry(key).c_str()) != 0) return give_up(folder);
      keep_limit(key);
      return true;
    } catch (const std::exception&) {  // a full disk, or a file that is not there
      return give_up(folder);
    }
  }

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

  // Removes the entries that were used least recently, by the time of meta.json, until the files of the rest
  // have at most limit_ bytes together. The entry of the key `kept` stays. Folders without meta.json are
  // being built, and neither count nor are removed.
  void keep_limit(const std::string& kept) const {
    struct Entry {
      std::filesystem::file_time_type used;
      int64_t bytes;
      std::filesystem::path folder;
    };
    std::vector<Entry> entries;
    int64_t total = 0;
    std::error_code error;
    for (const auto& part : std::filesystem::directory_iterator(folder_, error)) {
      for (const auto& found : std::filesystem::directory_iterator(part.path(), error)) {
        const auto used = std::filesystem::last_write_time(found.path() / "meta.json", error);
        if (error) continue;  // a lock, or an entry that is being built
        Entry entry{used, 0, found.path()};
        for (const auto& file : std::filesystem::directory_iterator(found.path(), error))
          entry.bytes += static_cast<int64_t>(file.file_size(error));
        total += entry.bytes;
        entries.push_back(std::move(entry));
      }
    }
    std::ranges::sort(entries, {}, &Entry::used);
    for (const Entry& entry : entries) {
      if (total <= limit_) return;
      if (entry.folder.filename() == kept) continue;
      std::filesystem::remove_all(entry.folder, error);
      total -= entry.bytes;
    }
  }

  std::string folder_, problem_;
  int64_t limit_;
  int bad_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
