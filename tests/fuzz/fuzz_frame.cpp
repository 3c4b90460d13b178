// Frames of the channel as untrusted input: any bytes give the same frames or the same error, independent of
// the size of the pieces in which they arrive. Accepted tensors are encoded as the same bytes again.
#include <cstdint>
#include <cstdlib>
#include <tinymlperf/channel/conversation.hpp>
#include <tinymlperf/channel/tensor.hpp>

namespace {

using namespace tinymlperf::channel;

// All frames and errors of the input as text. The reader receives `piece` bytes at a time.
std::string read_all(std::span<const std::byte> input, size_t piece) {
  std::string out;
  Limits limits;
  limits.tensors = 4096;
  FrameReader reader(limits);
  Conversation talk(3);
  try {
    for (size_t at = 0; at < input.size(); at += piece) {
      reader.feed(input.subspan(at, std::min(piece, input.size() - at)));
      while (const auto frame = reader.next()) {
        out += to_text(frame->kind) + std::to_string(frame->id) + text_of(frame->payload);
        talk.receives(*frame);
        if (talk.greeted() && !talk.ready() && frame->kind == Kind::hello) talk.sends(Kind::prepare, 0);
        if (frame->kind == Kind::ready) talk.sends(Kind::query, 1), talk.sends(Kind::query, 2);
        if (frame->kind != Kind::answer && frame->kind != Kind::token) continue;
        if (encode(parse_tensors(frame->payload)) != frame->payload) std::abort();
      }
    }
  } catch (const ProtocolError& error) {
    out += error.what();
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (read_all(input, size + 1) != read_all(input, 7)) std::abort();
  try {
    const Tensors tensors = parse_tensors(input);
    const Bytes again = encode(tensors);
    if (!std::equal(again.begin(), again.end(), input.begin(), input.end())) std::abort();
  } catch (const ProtocolError&) {
  }
  return 0;
}
