// Reading and writing whole files.
//
// A file is written under a temporary name in the same folder, flushed to the disk (fsync) and then renamed
// to its final name. After a crash, a full disk or an exception, a reader finds either the old or the new
// file, never a part. The folder must be the same, because renaming is atomic only within one file system.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <tinytorch/io/bytes.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

namespace io {

[[noreturn]] inline void fail_system(const char* code, const std::string& doing, const std::string& path,
                                     Loc loc) {
  const int error = errno;
  std::string text = "cannot " + doing + " '" + path + "': " + std::strerror(error);
  if (error == ENOENT) text += "\n  hint: check the path; relative paths start at the working directory";
  fail(code, text, loc);
}

// A file descriptor that is closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // False if the last writes could not be stored.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

inline std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace io

// The content of a file of at most `limit` bytes. Throws TT-IO-01 if it cannot be read, TT-IO-06 if it is
// larger.
inline std::vector<std::byte> read_file(const std::string& path, uint64_t limit = uint64_t{1} << 40, TT_LOC) {
  io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) io::fail_system("TT-IO-01", "read", path, loc);
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    io::fail_system("TT-IO-01", "read", path, loc);
  }
  // The size is only an estimate: a pipe reports 0, and a file may grow while it is read.
  const auto size = static_cast<uint64_t>(info.st_size);
  std::vector<std::byte> out;
  size_t used = 0;
  while (true) {
    if (size > limit || used > limit) {
      const io::Source source{path, "a file", loc};
      source.reject("at most " + io::count_of(limit, "bytes"),
                    size > limit ? io::count_of(size, "bytes") : "more", "TT-IO-06");
    }
    if (used == out.size()) out.resize(used ? used * 2 : static_cast<size_t>(size) + 1);
    const ssize_t n = ::read(file.get(), out.data() + used, out.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io::fail_system("TT-IO-01", "read", path, loc);
    if (n == 0) break;
    used += static_cast<size_t>(n);
  }
  out.resize(used);
  return out;
}

// A file that gets its final name on commit(); without commit(), the temporary file is removed.
//   AtomicFile f("model.bin");  f.write(bytes);  f.commit();
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, TT_LOC)
      : path_(std::move(path)), temporary_(temporary_name(path_)), loc_(loc), file_(create(temporary_)) {
    if (file_.get() < 0) io::fail_system("TT-IO-02", "write", path_, loc_);
  }
  ~AtomicFile() {
    if (!committed_) ::unlink(temporary_.c_str());
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(Bytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) io::fail_system("TT-IO-02", "write", path_, loc_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  void write(std::string_view text) { write(as_bytes(text)); }

  void commit() {
    if (::fsync(file_.get()) != 0 || !file_.close() || ::rename(temporary_.c_str(), path_.c_str()) != 0)
      io::fail_system("TT-IO-02", "write", path_, loc_);
    committed_ = true;
    // fsync of the folder makes the rename durable; on a file system without it, the rename is still done.
    io::Descriptor folder(::open(io::folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() >= 0) (void)::fsync(folder.get());
  }
  const std::string& temporary() const { return temporary_; }

 private:
  static std::string temporary_name(const std::string& path) {
    static std::atomic<uint64_t> counter{0};
    return path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  }
  static int create(const std::string& name) {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }

  std::string path_;
  std::string temporary_;
  Loc loc_;
  io::Descriptor file_;
  bool committed_ = false;
};

// Throws TT-IO-02 if no file can be written at `path`. Call it before a long computation whose result will be
// written there.
inline void require_writable(const std::string& path, TT_LOC) {
  const AtomicFile never_committed(path, loc);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
  errno = EISDIR;
  io::fail_system("TT-IO-02", "write", path, loc);
}

inline void write_file(const std::string& path, Bytes bytes, TT_LOC) {
  AtomicFile file(path, loc);
  file.write(bytes);
  file.commit();
}
inline void write_file(const std::string& path, std::string_view text, TT_LOC) {
  write_file(path, as_bytes(text), loc);
}

}  // namespace tinytorch::inline TT_BUILD
