// Files that an untrusted program may access: Landlock, access rules of the kernel for the calling process.
//
// Access that is not granted is denied, whichever user runs the program. The rules are applied between fork
// and exec, so nothing here allocates memory. The constants are those of the kernel's interface; the headers
// of older systems lack the newer ones.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace tinymlperf::sandbox::landlock {

// Rights on files. kFirst has all rights of version 1 of the interface, with those to create and remove
// files; the last three rights came with versions 2, 3 and 5.
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3;
constexpr uint64_t kFirst = (1 << 13) - 1;
constexpr uint64_t kRefer = 1 << 13, kTruncate = 1 << 14, kIoctlDevice = 1 << 15;
constexpr uint64_t kMakeDevices = (1 << 6) | (1 << 11);  // character and block devices

constexpr uint64_t kRead = kExecute | kReadFile | kReadDir;
constexpr uint64_t kDevice = kReadFile | kWriteFile | kIoctlDevice;

// The kernel's struct landlock_ruleset_attr of version 6.
struct Handled {
  uint64_t files = 0, network = 0, scoped = 0;
};
struct [[gnu::packed]] PathRule {  // struct landlock_path_beneath_attr
  uint64_t allowed = 0;
  int32_t parent = -1;
};

// The version of the interface, or -errno: ENOSYS if the kernel lacks it, EOPNOTSUPP if it was not enabled.
inline int version() {
  constexpr unsigned kAskForVersion = 1;
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kAskForVersion);
  return version < 0 ? -errno : static_cast<int>(version);
}

// Everything that this version of the interface can deny.
inline Handled handled(int version) {
  Handled all{kFirst};
  if (version >= 2) all.files |= kRefer;
  if (version >= 3) all.files |= kTruncate;
  if (version >= 4) all.network = 3;  // bind and connect of TCP
  if (version >= 5) all.files |= kIoctlDevice;
  if (version >= 6) all.scoped = 3;  // abstract sockets of, and signals to, other processes
  return all;
}

// Creates an empty set of rules. Returns its file descriptor, or -1 with errno.
inline int create(int version) {
  const Handled all = handled(version);
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, &all, size, 0U));
}

// Grants rights on a file, or on a folder and everything below it. Returns false, with errno, on failure.
inline bool allow(int rules, int version, const char* path, uint64_t rights) {
  const int file = open(path, O_PATH | O_CLOEXEC);
  if (file < 0) return false;
  constexpr uint64_t kOfPlainFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;
  struct stat about {};
  bool good = fstat(file, &about) == 0;
  if (good && !S_ISDIR(about.st_mode)) rights &= kOfPlainFiles;
  const PathRule rule{rights & handled(version).files, file};
  constexpr int kPathBeneath = 1;
  good = good && syscall(SYS_landlock_add_rule, rules, kPathBeneath, &rule, 0U) == 0;
  const int error = errno;
  close(file);
  errno = error;
  return good;
}

// Applies the rules to this process and to all processes that it starts. Requires NO_NEW_PRIVS. Returns
// false, with errno, on failure.
inline bool apply(int rules) { return syscall(SYS_landlock_restrict_self, rules, 0U) == 0; }

}  // namespace tinymlperf::sandbox::landlock
