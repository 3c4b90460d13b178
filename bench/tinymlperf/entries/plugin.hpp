// Plugins: a submission of tier T2 includes this header and has one function that answers queries:
//
//   #include <tinymlperf/entries/plugin.hpp>
//   int main() {
//     return tinymlperf::serve([](const tinymlperf::Query& query) -> tinymlperf::Tensors {
//       return {my_model(query.inputs.at(0))};
//     });
//   }
// serve_together() answers all queries that wait, at once, which pays for a model that is faster by batches.
// An answer must not depend on the queries beside it (audit A15).
//
// serve() communicates with the judge through standard input and output. What the plugin itself prints goes
// to the error output, which the judge keeps. The judge measures the time; a plugin reports no results.
#pragma once

#include <fcntl.h>
#include <poll.h>
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
  std::function<void(const Tensor&)> token;  // sends a part of the answer immediately
};

using Respond = std::function<Tensors(const Query&)>;
// One answer for each query, in their order.
using RespondTogether = std::function<std::vector<Tensors>(std::span<const Query>)>;
// Called before the first query with a text of the judge, such as the name of the benchmark. It is not timed.
using Prepare = std::function<void(std::string_view)>;

namespace detail {

// The plugin's side of the channel. All calls block; only the judge has deadlines.
class Line {
 public:
  Line() : in_(fcntl(0, F_DUPFD_CLOEXEC, 3)), out_(fcntl(1, F_DUPFD_CLOEXEC, 3)) {
    // Replaces standard input and output, so that the plugin's own reads and writes do not affect the frames.
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, 0);
    dup2(2, 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
  }
  void send(channel::Kind kind, uint64_t id, std::span<const std::byte> payload) {
    const channel::Bytes frame = channel::encode(kind, id, payload);
    for (size_t sent = 0; sent < frame.size();) {
      const ssize_t now = write(out_, frame.data() + sent, frame.size() - sent);
      if (now < 0 && errno != EINTR) throw channel::ProtocolError("the judge has closed the channel");
      if (now > 0) sent += static_cast<size_t>(now);
    }
  }
  // Returns nothing at the end of the input, or if nothing has arrived and `wait` is false.
  std::optional<channel::Frame> receive(bool wait = true) {
    channel::Bytes piece(1 << 16);
    for (;;) {
      if (auto frame = reader_.next()) return frame;
      pollfd arrived{in_, POLLIN, 0};
      if (!wait && poll(&arrived, 1, 0) <= 0) return std::nullopt;
      const ssize_t got = read(in_, piece.data(), piece.size());
      if (got == 0) return std::nullopt;
      if (got < 0 && errno != EINTR) throw channel::ProtocolError("cannot read from the judge");
      if (got > 0) reader_.feed(std::span(piece).first(static_cast<size_t>(got)));
    }
  }

 private:
  int in_, out_;
  channel::FrameReader reader_{
      channel::Limits{uint64_t{1} << 40, uint64_t{1} << 30}};  // large, since the judge is trusted
};

inline Query query_of(Line& line, const channel::Frame& frame) {
  const uint64_t id = frame.id;
  return {id, channel::parse_tensors(frame.payload), [&line, id](const Tensor& piece) {
            line.send(channel::Kind::token, id, channel::encode(std::span(&piece, 1)));
          }};
}

// Answers the query of a frame together with those that wait behind it, `most` in all. The judge sends
// nothing but queries while one is open.
inline void answer_waiting(Line& line, const channel::Frame& first, const RespondTogether& respond,
                           size_t most) {
  std::vector<Query> queries;
  queries.push_back(query_of(line, first));  // a list in braces would copy the tensors
  while (queries.size() < most) {
    const auto next = line.receive(false);
    if (!next) break;
    queries.push_back(query_of(line, *next));
  }
  const std::vector<Tensors> answers = respond(queries);
  if (answers.size() != queries.size()) throw std::runtime_error("expected one answer for each query");
  for (size_t i = 0; i < answers.size(); ++i)
    line.send(channel::Kind::answer, queries[i].id, channel::encode(answers[i]));
}

inline void answer_all(Line& line, const RespondTogether& respond, size_t most, const Prepare& prepare) {
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
      answer_waiting(line, *frame, respond, most);
    }
  }
}

}  // namespace detail

// Answers the judge's queries, those that wait together, at most `most` of them, until the judge sends done
// or closes the channel. Returns the exit status for main(): 0, or 1 after an exception, whose text is sent
// to the judge.
inline int serve_together(const RespondTogether& respond, size_t most = 64, const Prepare& prepare = {}) {
  detail::Line line;
  try {
    detail::answer_all(line, respond, most, prepare);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plugin: %s\n", error.what());
    try {
      line.send(channel::Kind::error, 0, channel::bytes_of(std::string_view(error.what()).substr(0, 4096)));
    } catch (const std::exception&) {  // the judge has closed the channel
    }
    return 1;
  }
}

// Answers the judge's queries one by one, in order.
inline int serve(const Respond& respond, const Prepare& prepare = {}) {
  return serve_together(
      [&](std::span<const Query> one) {
        std::vector<Tensors> answer;
        answer.push_back(respond(one.front()));
        return answer;
      },
      1, prepare);
}

}  // namespace tinymlperf
