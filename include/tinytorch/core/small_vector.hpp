// SmallVector: a vector whose first kInline elements are stored in the object itself, so that a short list
// needs no allocation. It has the part of std::vector's interface that the library uses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <tinytorch/core/config.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

template <class T, size_t kInline>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  // Constructors for a list in braces: {a, b}. std::initializer_list<T> would copy each element twice, which
  // is expensive if copies are reference-counted, as those of tensors are. Elements that are themselves
  // written in braces, such as {{2, 3}, {3}}, need std::initializer_list<T>.
  struct Named {
    const T& value;
    Named(const T& v) : value(v) {}
  };
  SmallVector(std::initializer_list<T> values) requires std::is_trivially_destructible_v<T>
      : SmallVector(values.begin(), values.end()) {}
  SmallVector(std::initializer_list<Named> values) requires(!std::is_trivially_destructible_v<T>) {
    reserve(values.size());
    for (const Named& v : values) push_back(v.value);
  }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  SmallVector(const std::vector<T>& values)
      : SmallVector(values.begin(), values.end()) {}  // users often have a std::vector
  explicit SmallVector(size_t n) { resize(n); }
  SmallVector(size_t n, const T& value) {
    reserve(n);
    while (size_ < n) emplace_back(value);
  }
  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) { return *this = SmallVector(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      destroy();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { destroy(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {  // constructed first, because args may refer to an element here
      T value(std::forward<Args>(args)...);
      grow(2 * capacity_);
      return *std::construct_at(data_ + size_++, std::move(value));
    }
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  void reserve(size_t n) {
    if (n > capacity_) grow(std::max(n, 2 * capacity_));
  }
  void resize(size_t n) {
    reserve(n);
    while (size_ > n) pop_back();
    while (size_ < n) emplace_back();
  }
  template <std::input_iterator It>
  void insert(const T* at, It first, It last) {
    const auto place = at - data_, old_end = static_cast<std::ptrdiff_t>(size_);
    for (; first != last; ++first) push_back(*first);
    std::rotate(data_ + place, data_ + old_end, end());
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_room() { return reinterpret_cast<T*>(room_); }
  void grow(size_t capacity) {
    T* const larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_move_n(data_, size_, larger);
    const size_t size = size_;
    destroy();
    data_ = larger, size_ = size, capacity_ = capacity;
  }
  void destroy() {
    std::destroy_n(data_, size_);
    if (data_ != inline_room()) std::allocator<T>().deallocate(data_, capacity_);
  }
  // Takes over the other's elements and leaves it empty. This vector must be empty, or just destroyed.
  void take(SmallVector& other) noexcept {
    const bool is_inline = other.data_ == other.inline_room();
    data_ = is_inline ? inline_room() : other.data_;
    size_ = other.size_, capacity_ = other.capacity_;
    if (is_inline) {
      std::uninitialized_move_n(other.data_, size_, data_);
      std::destroy_n(other.data_, size_);
    }
    other.data_ = other.inline_room(), other.size_ = 0, other.capacity_ = kInline;
  }

  T* data_ = inline_room();
  size_t size_ = 0, capacity_ = kInline;
  alignas(T) std::byte room_[kInline * sizeof(T)];
};

}  // namespace tinytorch::inline TT_BUILD
