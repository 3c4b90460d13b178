// Frames: the messages between judge and plugin, encoded in a stream of bytes. All functions are pure.
//
//   bytes  0..3   "TMLF"          12..19  id of the query, 0 if there is none
//          4..5   kind            20..27  bytes of the payload
//          6..11  zero            28..    the payload
//
// All numbers are little-endian. The reader compares each length with the limit for this kind of frame before
// it uses it, and allocates memory only for bytes that have arrived.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tinymlperf::channel {

static_assert(std::endian::native == std::endian::little, "frames are copied from memory without byte swaps");

constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 28;

enum class Kind : uint16_t {
  hello = 1,  // from the plugin: its version of this protocol, 4 bytes
  prepare,    // from the judge: a text that names what the plugin must prepare for
  ready,      // from the plugin: it is prepared; timing begins after this frame
  query,      // from the judge: id and tensors
  token,      // from the plugin: id and one tensor, a part of an answer that is streamed
  answer,     // from the plugin: id and tensors; the query is closed
  done,       // from the judge: there are no more queries
  error       // from the plugin: a text that says why it cannot go on
};
constexpr uint16_t kLastKind = static_cast<uint16_t>(Kind::error);

inline const char* to_text(Kind kind) {
  constexpr const char* kNames[] = {"?",     "hello",  "prepare", "ready", "query",
                                    "token", "answer", "done",    "error"};
  return kNames[static_cast<uint16_t>(kind)];
}

using Bytes = std::vector<std::byte>;

struct Frame {
  Kind kind = Kind::hello;
  uint64_t id = 0;
  Bytes payload;
};

// The other side violates the protocol. The text says what was expected and what was found.
struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Limits on the size of a frame's payload, in bytes.
struct Limits {
  uint64_t tensors = uint64_t{256} << 20;  // of a query, token or answer
  uint64_t text = 65536;                   // of prepare and error

  uint64_t of(Kind kind) const {
    switch (kind) {
      case Kind::hello:
        return 4;
      case Kind::prepare:
      case Kind::error:
        return text;
      case Kind::ready:
      case Kind::done:
        return 0;
      default:
        return tensors;
    }
  }
};

inline Bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace detail {

template <class T>
void append(Bytes& out, T value) {
  const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  out.insert(out.end(), raw.begin(), raw.end());
}

template <class T>
T number_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof(T)).data(), sizeof(T));
  return value;
}

constexpr uint32_t kMagic = 0x464C4D54;  // "TMLF"

struct Header {
  Kind kind = Kind::hello;
  uint64_t id = 0, length = 0;
};

// Text that a plugin prints by mistake is detected by its first four bytes.
inline void require_magic(std::span<const std::byte> bytes) {
  if (bytes.size() >= 4 && number_at<uint32_t>(bytes, 0) != kMagic)
    throw ProtocolError(
        "expected a frame, found other bytes: a plugin must not write to standard output itself");
}

// Parses a header of kHeaderBytes bytes whose magic number has been checked. Throws ProtocolError.
inline Header parse_header(std::span<const std::byte> bytes, const Limits& limits) {
  const auto kind = number_at<uint16_t>(bytes, 4);
  if (kind == 0 || kind > kLastKind)
    throw ProtocolError("expected a frame of kind 1 to 8, found kind " + std::to_string(kind));
  if (number_at<uint16_t>(bytes, 6) != 0 || number_at<uint32_t>(bytes, 8) != 0)
    throw ProtocolError("expected zeros in bytes 6 to 11 of a frame, found something else");
  const Header out{static_cast<Kind>(kind), number_at<uint64_t>(bytes, 12), number_at<uint64_t>(bytes, 20)};
  if (out.length > limits.of(out.kind))
    throw ProtocolError(std::string("expected at most ") + std::to_string(limits.of(out.kind)) +
                        " bytes of " + to_text(out.kind) + ", found a length of " +
                        std::to_string(out.length));
  return out;
}

}  // namespace detail

inline Bytes encode(Kind kind, uint64_t id, std::span<const std::byte> payload) {
  Bytes out;
  out.reserve(kHeaderBytes + payload.size());
  detail::append(out, detail::kMagic);
  detail::append(out, static_cast<uint16_t>(kind));
  detail::append(out, uint16_t{0});
  detail::append(out, uint32_t{0});
  detail::append(out, id);
  detail::append(out, uint64_t{payload.size()});
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

inline Bytes encode(const Frame& frame) { return encode(frame.kind, frame.id, frame.payload); }

// Assembles frames from bytes that arrive in pieces of any size.
class FrameReader {
 public:
  explicit FrameReader(Limits limits = {}) : limits_(limits) {}
  void set_limits(Limits limits) { limits_ = limits; }  // of headers that were not yet read

  void feed(std::span<const std::byte> bytes) { buffer_.insert(buffer_.end(), bytes.begin(), bytes.end()); }

  // Returns the next frame if all its bytes have arrived. Throws ProtocolError as soon as a header is wrong.
  std::optional<Frame> next() {
    const std::span<const std::byte> waiting = std::span(buffer_).subspan(used_);
    detail::require_magic(waiting);
    if (waiting.size() < kHeaderBytes) return shrink();
    const detail::Header header = detail::parse_header(waiting, limits_);
    if (waiting.size() - kHeaderBytes < header.length) return shrink();
    const auto payload = waiting.subspan(kHeaderBytes, header.length);
    Frame frame{header.kind, header.id, {payload.begin(), payload.end()}};
    used_ += kHeaderBytes + header.length;
    return frame;
  }

  // True if no part of a frame is waiting, so that the stream may end here.
  bool between_frames() const { return used_ == buffer_.size(); }

 private:
  std::nullopt_t shrink() {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    return std::nullopt;
  }
  Limits limits_;
  Bytes buffer_;
  size_t used_ = 0;  // bytes of the buffer that were returned as frames
};

}  // namespace tinymlperf::channel
