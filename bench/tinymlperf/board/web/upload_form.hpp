// The form of an upload, and how many are read at once.
//
// A program sends its token in the header "Authorization: Bearer TOKEN", which is checked before a byte of
// the body is read. A browser's form has its token in the body, so a stranger can send one as slowly as he
// likes. Forms therefore have few places of their own, and so has each user: nobody keeps the others from
// uploading.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tinymlperf/board/web/http_library.hpp>

namespace tinymlperf::board {

class UploadPlaces {
 public:
  // `all`: bodies that are read at once; `forms` of them without a token in the header, `each` of one user.
  UploadPlaces(int all, int forms, int each) : free_(all), forms_(forms), each_(each) {}

  // A place that is held while the ticket lives; a false one was not available.
  class Ticket {
   public:
    Ticket(UploadPlaces& of, std::optional<int64_t> user)
        : of_(of), holder_(user.value_or(kForms)), is_held_(of.enter(holder_)) {}
    ~Ticket() {
      if (is_held_) of_.leave(holder_);
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    explicit operator bool() const { return is_held_; }

   private:
    UploadPlaces& of_;
    int64_t holder_;
    bool is_held_;
  };

 private:
  static constexpr int64_t kForms = -1;  // no user has this number

  bool enter(int64_t holder) {
    const std::lock_guard lock(mutex_);
    const int most = holder == kForms ? forms_ : each_;
    if (free_ <= 0 || (used_.contains(holder) && used_.at(holder) >= most) || most <= 0) return false;
    return --free_, ++used_[holder], true;
  }
  void leave(int64_t holder) {
    const std::lock_guard lock(mutex_);
    ++free_;
    if (--used_.at(holder) == 0) used_.erase(holder);
  }

  std::mutex mutex_;
  int free_;
  const int forms_, each_;
  std::map<int64_t, int> used_;
};

// The token of the header; empty: there is none.
inline std::string bearer_of(const httplib::Request& request) {
  const std::string value = request.get_header_value("Authorization"), scheme = "Bearer ";
  return value.starts_with(scheme) ? value.substr(scheme.size()) : "";
}

struct UploadForm {
  std::string token, bundle;
};

// The result is empty if the form ended early, or has an unknown or repeated field, or a token of more than
// 200 bytes.
inline std::optional<UploadForm> read_upload(const httplib::ContentReader& reader) {
  constexpr size_t kLongestToken = 200;
  UploadForm form;
  std::string* current = nullptr;
  size_t parts = 0;
  const bool complete = reader(
      [&](const httplib::MultipartFormData& part) {
        current = part.name == "token" ? &form.token : part.name == "bundle" ? &form.bundle : nullptr;
        return current && current->empty() && ++parts <= 2;
      },
      [&](const char* data, size_t size) {
        if (current == &form.token && current->size() + size > kLongestToken) return false;
        current->append(data, size);
        return true;
      });
  return complete ? std::optional(std::move(form)) : std::nullopt;
}

}  // namespace tinymlperf::board
