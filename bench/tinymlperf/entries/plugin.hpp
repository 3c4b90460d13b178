// A submission of tier T2 is this header and one function:
//
//   #include <tinymlperf/entries/plugin.hpp>
//
//   int main() {
//     return tinymlperf::serve([](const tinymlperf::Query& query) -> tinymlperf::Tensors {
//       return {my_model(query.inputs.at(0))};
//     });
//   }
//
// serve() speaks with the judge through standard input and output. What the plugin itself prints goes to the
// error output, which the judge keeps. There is no clock to stop and no result to report: the judge measures.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <tinymlperf/channel/tensor.hpp>

namespace tinymlperf {

using channel::DType;
using channel::make_tensor;
using channel::Tensor;
using channel::Tensors;

struct Query {
  uint64_t id = 0;
  Tensors inputs;
  std::function<void(const Tensor&)> token;  // sends a piece of the answer at once
};

using Respond = std::function<Tensors(const Query&)>;
using Prepare =
    std::function<void(std::string_view)>;  // before the first query, untimed; the text is the judge's

namespace detail {

// The two ends as the plugin sees them; everything blocks, the judge has the deadlines.
class Line {
 public:
  Line() : in_(fcntl(0, F_DUPFD_CLOEXEC, 3)), out_(fcntl(1, F_DUPFD_CLOEXEC, 3)) {
    // Whatever the plugin prints or reads by accident must not be a frame.
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, 0);
    dup2(2, 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
  }
  void send(channel::Kind kind, uint64_t id, std::span<const std::byte> payload) {
    const channel::Bytes frame = channel::encode(kind, id, payload);
    for (size_t sent = 0; sent < frame.size();) {
      const ssize_t now = write(out_, frame.data() + sent, frame.size() - sent);
      if (now < 0 && errno != EINTR) throw channel::ProtocolError("the judge is gone");
      if (now > 0) sent += static_cast<size_t>(now);
    }
  }
  // Nothing at the end of the input.
  std::optional<channel::Frame> receive() {
    channel::Bytes piece(1 << 16);
    for (;;) {
      if (auto frame = reader_.next()) return frame;
      const ssize_t got = read(in_, piece.data(), piece.size());
      if (got == 0) return std::nullopt;
      if (got < 0 && errno != EINTR) throw channel::ProtocolError("cannot read from the judge");
      if (got > 0) reader_.feed(std::span(piece).first(static_cast<size_t>(got)));
    }
  }

 private:
  int in_, out_;
  channel::FrameReader reader_{
      channel::Limits{uint64_t{1} << 40, uint64_t{1} << 30}};  // the judge is believed
};

inline void answer_all(Line& line, const Respond& respond, const Prepare& prepare) {
  using channel::Kind;
  channel::Bytes version;
  channel::detail::append(version, channel::kVersion);
  line.send(Kind::hello, 0, version);
  while (const auto frame = line.receive()) {
    if (frame->kind == Kind::done) return;
    if (frame->kind == Kind::prepare) {
      if (prepare) prepare(channel::text_of(frame->payload));
      line.send(Kind::ready, 0, {});
    } else {
      const uint64_t id = frame->id;
      const Query query{id, channel::parse_tensors(frame->payload), [&line, id](const Tensor& piece) {
                          line.send(Kind::token, id, channel::encode(std::span(&piece, 1)));
                        }};
      line.send(Kind::answer, id, channel::encode(respond(query)));
    }
  }
}

}  // namespace detail

// Answers the judge's queries one after another until it says done. The return value is main()'s: 0, or 1
// after an exception of the plugin's, whose text the judge is told.
inline int serve(const Respond& respond, const Prepare& prepare = {}) {
  detail::Line line;
  try {
    detail::answer_all(line, respond, prepare);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plugin: %s\n", error.what());
    try {
      line.send(channel::Kind::error, 0, channel::bytes_of(std::string_view(error.what()).substr(0, 4096)));
    } catch (const std::exception&) {  // nobody is left to tell
    }
    return 1;
  }
}

}  // namespace tinymlperf
