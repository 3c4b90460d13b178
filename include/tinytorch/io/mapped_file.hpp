// MappedFile: a file as memory. Its bytes are read from the disk when they are first used, and tensors may
// lie in it without a copy.
//
// The mapping is private: a write to it changes a copy of the page, never the file. A file that is replaced
// by renaming keeps its old content in the mapping; one that another program cuts off ends this program with
// SIGBUS, as with any mapping.
#pragma once

#include <sys/mman.h>

#include <memory>
#include <tinytorch/core/shape.hpp>
#include <tinytorch/io/file.hpp>

namespace tinytorch::inline TT_BUILD::io {

// Asks for large pages (2 MB) for memory that is about to be written for the first time. Without them, the
// system stops the writing for every 4 KB, which takes longer than copying a file.
inline void use_large_pages(void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 4096;
  const auto first = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = round_up(first, kPage), end = (first + bytes) / kPage * kPage;
  if (bytes >= size_t{2} << 20 && begin < end)
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

class MappedFile {
 public:
  // Throws TT-IO-01 if the file cannot be read or is no regular file.
  explicit MappedFile(const std::string& path, TT_LOC) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (file.get() < 0 || ::fstat(file.get(), &info) != 0) fail_system("TT-IO-01", "read", path, loc);
    if (!S_ISREG(info.st_mode)) {
      errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
      fail_system("TT-IO-01", "read", path, loc);
    }
    size_ = static_cast<size_t>(info.st_size);
    if (size_ == 0) return;
    void* const at =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
    if (at == MAP_FAILED) fail_system("TT-IO-01", "read", path, loc);
    data_ = static_cast<std::byte*>(at);
    (void)::madvise(at, size_, MADV_WILLNEED);
  }
  ~MappedFile() {
    if (data_) ::munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }
  Bytes bytes() const { return {data_, size_}; }

  // The memory of these bytes may be used for something else. If they are needed again, they are read again,
  // and what was written to them is lost. Bytes outside of the mapping are not touched.
  void release(Bytes part) const {
    if (part.data() < data_ || part.data() + part.size() > data_ + size_ || part.empty()) return;
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const auto first = static_cast<size_t>(part.data() - data_), last = first + part.size();
    const size_t begin = round_up(first, page), end = last == size_ ? last : last / page * page;
    if (begin < end) (void)::madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::io
