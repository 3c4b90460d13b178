// Frames and tensors as bytes, and the order of frames: valid ones arrive unchanged, all others are refused.
#include <doctest/doctest.h>

#include <tinymlperf/channel/conversation.hpp>
#include <tinymlperf/channel/tensor.hpp>

using namespace tinymlperf::channel;

namespace {

Bytes header(uint32_t magic, uint16_t kind, uint64_t length, uint64_t zeros = 0) {
  Bytes out;
  detail::append(out, magic);
  detail::append(out, kind);
  for (int i = 0; i < 6; ++i) out.push_back(static_cast<std::byte>(zeros >> (8 * i)));
  detail::append(out, uint64_t{3});
  detail::append(out, length);
  return out;
}

std::optional<Frame> read_all(const Bytes& bytes) {
  FrameReader reader;
  reader.feed(bytes);
  return reader.next();
}

Frame hello(uint32_t version = kVersion) {
  Frame frame{Kind::hello, 0, {}};
  detail::append(frame.payload, version);
  return frame;
}

Conversation ready() {
  Conversation talk;
  talk.receives(hello());
  talk.sends(Kind::prepare, 0);
  talk.receives({Kind::ready, 0, {}});
  return talk;
}

}  // namespace

TEST_CASE("frames arrive unchanged if their bytes come in pieces of any size") {
  Bytes stream;
  for (uint64_t id = 1; id <= 20; ++id) {
    const Bytes frame = encode(Kind::answer, id, bytes_of(std::string(id * 7, 'x')));
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const size_t piece : {size_t{1}, size_t{27}, size_t{28}, size_t{64}, stream.size()}) {
    FrameReader reader;
    uint64_t seen = 0;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = reader.next()) {
        CHECK(frame->id == ++seen);
        CHECK(frame->kind == Kind::answer);
        CHECK(frame->payload.size() == seen * 7);
      }
    }
    CHECK(seen == 20);
    CHECK(reader.between_frames());
  }
}

TEST_CASE("a truncated frame is not returned, and the stream may not end within it") {
  const Bytes whole = encode(Kind::token, 1, bytes_of("abc"));
  FrameReader reader;
  CHECK(reader.between_frames());
  reader.feed(std::span(whole).first(whole.size() - 1));
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.between_frames());
}

TEST_CASE("malformed headers are refused before their payload has arrived") {
  constexpr uint32_t kMagic = detail::kMagic;
  CHECK_THROWS_WITH_AS(read_all(bytes_of("hello from a printf() in the plugin")),
                       doctest::Contains("must not write to standard output"), ProtocolError);
  CHECK_THROWS_WITH_AS(read_all(header(kMagic, 0, 0)), doctest::Contains("found kind 0"), ProtocolError);
  CHECK_THROWS_WITH_AS(read_all(header(kMagic, 9, 0)), doctest::Contains("found kind 9"), ProtocolError);
  CHECK_THROWS_WITH_AS(read_all(header(kMagic, 6, 0, 1)), doctest::Contains("zeros"), ProtocolError);
  CHECK_THROWS_WITH_AS(read_all(header(kMagic, 6, UINT64_MAX)), doctest::Contains("18446744073709551615"),
                       ProtocolError);
  CHECK_THROWS_AS(read_all(header(kMagic, 6, (uint64_t{256} << 20) + 1)), ProtocolError);
  CHECK_THROWS_AS(read_all(header(kMagic, 1, 5)), ProtocolError);  // hello has four bytes
  CHECK_THROWS_AS(read_all(header(kMagic, 3, 1)), ProtocolError);  // ready has none
  CHECK_FALSE(read_all(header(kMagic, 6, uint64_t{256} << 20)));   // allowed, but not yet arrived
}

TEST_CASE("tensors of every type and shape are the same after encoding and parsing") {
  Tensors tensors;
  for (uint8_t type = 0; type < 8; ++type)
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {3}, {2, 0}, {1, 2, 3, 1, 2, 1, 1, 2}}) {
      size_t bytes = bytes_of_one(static_cast<DType>(type));
      for (const int64_t side : shape) bytes *= static_cast<size_t>(side);
      tensors.push_back({static_cast<DType>(type), shape, Bytes(bytes, std::byte{type})});
    }
  const Tensors back = parse_tensors(encode(tensors));
  REQUIRE(back.size() == tensors.size());
  for (size_t i = 0; i < back.size(); ++i) {
    CHECK(back[i].dtype == tensors[i].dtype);
    CHECK(back[i].shape == tensors[i].shape);
    CHECK(back[i].bytes == tensors[i].bytes);
  }
  const std::vector<float> values = {1, 2, 3, 4};
  const Tensor matrix = make_tensor({2, 2}, values);
  CHECK(matrix.values<float>()[3] == 4);
  CHECK_THROWS_AS(matrix.values<double>(), ProtocolError);
  CHECK_THROWS_AS(make_tensor({2, 3}, values), ProtocolError);
}

TEST_CASE("payloads that are not valid tensors are refused") {
  const std::vector<float> values = {1, 2, 3, 4};
  const Tensor one = make_tensor({2, 2}, values);
  const Bytes good = encode(std::span(&one, 1));
  for (size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(parse_tensors(std::span(good).first(size)), ProtocolError);
  const auto changed = [&](size_t at, std::byte value) {
    Bytes out = good;
    out.at(at) = value;
    return out;
  };
  CHECK_THROWS_AS(parse_tensors(changed(0, std::byte{2})), ProtocolError);     // two tensors
  CHECK_THROWS_AS(parse_tensors(changed(0, std::byte{255})), ProtocolError);   // too many
  CHECK_THROWS_AS(parse_tensors(changed(4, std::byte{8})), ProtocolError);     // no such type
  CHECK_THROWS_AS(parse_tensors(changed(5, std::byte{9})), ProtocolError);     // nine dimensions
  CHECK_THROWS_AS(parse_tensors(changed(6, std::byte{1})), ProtocolError);     // not zero
  CHECK_THROWS_AS(parse_tensors(changed(8, std::byte{1})), ProtocolError);     // 1 x 2: bytes are left
  CHECK_THROWS_AS(parse_tensors(changed(14, std::byte{64})), ProtocolError);   // a huge side
  CHECK_THROWS_AS(parse_tensors(changed(15, std::byte{255})), ProtocolError);  // a negative side
  // The product of the sides exceeds 64 bits before a side of zero comes.
  Bytes overflow;
  detail::append(overflow, uint32_t{1});
  detail::append(overflow, uint32_t{0x400});
  for (const int64_t side : {int64_t{1} << 40, int64_t{1} << 40, int64_t{0}, int64_t{1}})
    detail::append(overflow, side);
  CHECK_THROWS_AS(parse_tensors(overflow), ProtocolError);
}

TEST_CASE("frames in order are accepted, with several queries open at a time") {
  Conversation talk = ready();
  for (const uint64_t id : {7u, 8u, 9u}) talk.sends(Kind::query, id);
  talk.receives({Kind::token, 7, {}});
  talk.receives({Kind::answer, 9, {}});
  talk.receives({Kind::answer, 7, {}});
  CHECK(talk.open_queries() == 1);
  talk.receives({Kind::answer, 8, {}});
  talk.sends(Kind::done, 0);
}

TEST_CASE("frames out of order are refused, and the message says what was expected") {
  CHECK_THROWS_AS(Conversation().receives({Kind::ready, 0, {}}), ProtocolError);
  CHECK_THROWS_WITH_AS(Conversation().receives(hello(2)),
                       doctest::Contains("found version 2: compile the plugin"), ProtocolError);
  Conversation early;
  early.receives(hello());
  CHECK_THROWS_WITH_AS(early.receives({Kind::ready, 0, {}}),
                       doctest::Contains("before the judge sent prepare"), ProtocolError);
  Conversation talk = ready();
  CHECK_THROWS_WITH_AS(talk.receives({Kind::answer, 7, {}}), doctest::Contains("found answer of query 7"),
                       ProtocolError);
  talk.sends(Kind::query, 7);
  CHECK_THROWS_AS(talk.receives({Kind::answer, 8, {}}), ProtocolError);
  CHECK_THROWS_AS(talk.receives({Kind::query, 7, {}}), ProtocolError);
  CHECK_THROWS_AS(talk.receives(hello()), ProtocolError);
  talk.receives({Kind::answer, 7, {}});
  CHECK_THROWS_AS(talk.receives({Kind::answer, 7, {}}), ProtocolError);  // twice
  CHECK_THROWS_AS(talk.receives({Kind::token, 7, {}}), ProtocolError);   // after its answer
  Conversation tokens(2);
  tokens.receives(hello());
  tokens.sends(Kind::prepare, 0);
  tokens.receives({Kind::ready, 0, {}});
  tokens.sends(Kind::query, 1);
  for (int i = 0; i < 2; ++i) tokens.receives({Kind::token, 1, {}});
  CHECK_THROWS_AS(tokens.receives({Kind::token, 1, {}}), ProtocolError);
}

TEST_CASE("frames that the judge sends out of order are a logic error") {
  Conversation talk;
  CHECK_THROWS_AS(talk.sends(Kind::query, 1), std::logic_error);
  talk = ready();
  talk.sends(Kind::query, 1);
  CHECK_THROWS_AS(talk.sends(Kind::query, 1), std::logic_error);
  CHECK_THROWS_AS(talk.sends(Kind::done, 0), std::logic_error);
  CHECK_THROWS_AS(talk.sends(Kind::answer, 1), std::logic_error);
}
