// State machine of the protocol, as the judge sees it: which frame may follow which. It does no I/O.
//
//   judge:            prepare          query 7   query 8                     done
//   plugin:   hello            ready             token 7  answer 8  answer 7       (ends)
//
// Several queries may be open at a time. They may be answered in any order, each exactly once. The plugin may
// send error at any time.
#pragma once

#include <map>
#include <tinymlperf/channel/frame.hpp>

namespace tinymlperf::channel {

class Conversation {
 public:
  explicit Conversation(int64_t most_tokens = 1 << 16) : most_tokens_(most_tokens) {}

  // Records a frame that the judge is about to send. Throws std::logic_error if it is out of order, which is
  // a defect of the judge.
  void sends(Kind kind, uint64_t id) {
    const bool good = kind == Kind::prepare ? stage_ == Stage::greeted
                      : kind == Kind::query ? stage_ == Stage::ready && id != 0 && open_.count(id) == 0
                                            : kind == Kind::done && stage_ == Stage::ready && open_.empty();
    if (!good) throw std::logic_error(std::string("a judge may not send ") + to_text(kind) + " " + where());
    if (kind == Kind::prepare) stage_ = Stage::preparing;
    if (kind == Kind::query) open_[id] = 0;
    if (kind == Kind::done) stage_ = Stage::over;
  }

  // Records a frame that came from the plugin. Throws ProtocolError if it is out of order.
  void receives(const Frame& frame) {
    const auto refuse = [&](const std::string& expected) {
      throw ProtocolError("expected " + expected + ", found " + to_text(frame.kind) +
                          (frame.id ? " of query " + std::to_string(frame.id) : "") + " " + where());
    };
    if (frame.kind == Kind::error) return;
    if (stage_ == Stage::silent) {
      if (frame.kind != Kind::hello || frame.payload.size() != 4) refuse("hello with a version");
      const auto version = detail::number_at<uint32_t>(frame.payload, 0);
      if (version != kVersion)
        throw ProtocolError("expected version " + std::to_string(kVersion) +
                            " of the protocol, found version " + std::to_string(version) +
                            ": compile the plugin with this judge's plugin.hpp");
      stage_ = Stage::greeted;
    } else if (stage_ == Stage::preparing) {
      if (frame.kind != Kind::ready) refuse("ready");
      stage_ = Stage::ready;
    } else {
      const auto query = open_.find(frame.id);
      if (query == open_.end() || (frame.kind != Kind::token && frame.kind != Kind::answer))
        refuse("a token or an answer of an open query");
      if (frame.kind == Kind::answer) {
        open_.erase(query);
      } else if (++query->second > most_tokens_) {
        refuse("at most " + std::to_string(most_tokens_) + " tokens");
      }
    }
  }

  bool greeted() const { return stage_ != Stage::silent; }
  bool ready() const { return stage_ == Stage::ready; }
  size_t open_queries() const { return open_.size(); }

 private:
  enum class Stage { silent, greeted, preparing, ready, over };
  std::string where() const {
    constexpr const char* kWhere[] = {"at the start", "before the judge sent prepare",
                                      "while the plugin prepares", "while queries are asked",
                                      "after the judge sent done"};
    return kWhere[static_cast<size_t>(stage_)];
  }
  Stage stage_ = Stage::silent;
  std::map<uint64_t, int64_t> open_;  // tokens so far, by the id of the open query
  int64_t most_tokens_;
};

}  // namespace tinymlperf::channel
