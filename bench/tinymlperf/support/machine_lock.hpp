// A lock for the whole machine: one program measures at a time, whoever runs it, and the others learn who
// does.
//
//   const MachineLock lock("playing job 7");
//   if (!lock.is_held()) fmt::print("{} measures on this machine\n", lock.holder());
//
// It is a lock of the system on a file (flock), so it ends with the process that holds it, whatever kills
// that process. The file's text says who holds the lock. The file stays: removing it would let two holders
// in.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinymlperf/support/machine.hpp>

namespace tinymlperf {

class MachineLock {
 public:
  // In a folder that all users of a machine share, and that no variable of the environment moves.
  static std::filesystem::path usual_file() { return "/tmp/tinymlperf-machine.lock"; }

  // Tries once. `purpose`: for others, who want to know what holds them up.
  explicit MachineLock(const std::string& purpose, const std::filesystem::path& file = usual_file())
      : file_(open_shared(file)) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) {
      held_ = true;
      say(fmt::format("process {} of user {}, {}, since {}", getpid(), getuid(), purpose, utc_now()));
      return;
    }
    const int why = errno;
    if (why != EWOULDBLOCK) {
      close(file_);
      throw std::runtime_error("cannot lock " + file.string() + ": " + std::strerror(why));
    }
    std::array<char, 400> text{};
    const ssize_t got = pread(file_, text.data(), text.size(), 0);
    holder_ = got > 0 ? one_line(std::string_view(text.data(), static_cast<size_t>(got))) : "another process";
  }
  ~MachineLock() {
    if (held_) say("");
    close(file_);
  }
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;

  bool is_held() const { return held_; }
  const std::string& holder() const { return holder_; }  // who else has it

 private:
  // Whoever is first creates it for everybody. It is never a link, which could lead to a file of another
  // user.
  static int open_shared(const std::filesystem::path& file) {
    for (int time = 0; time < 2; ++time) {
      for (const int mode : {O_RDWR, O_RDONLY})
        if (const int opened = open(file.c_str(), mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); opened >= 0)
          return opened;
      const int made = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
      if (made >= 0) return fchmod(made, 0666), made;  // the mask of the process takes rights away
    }
    throw std::runtime_error("cannot open " + file.string() + ": " + std::strerror(errno));
  }
  // A file that is only read by this user keeps an old text; the lock holds all the same.
  void say(const std::string& text) {
    if (ftruncate(file_, 0) != 0) return;
    if (pwrite(file_, text.data(), text.size(), 0) < 0) return;
  }

  int file_;
  bool held_ = false;
  std::string holder_;
};

}  // namespace tinymlperf
