// Mapped files, and tensors that lie in them.
#include <tinytorch/io/mapped_file.hpp>

#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/tinytorch.hpp>

#include <cstring>
#include <io/files.hpp>

namespace tt = tinytorch;

TEST_CASE("a mapped file has the file's bytes, and writing to them does not change it") {
  const files::TempFolder folder;
  const std::string path = folder / "a.bin", text(10000, 'x');
  tt::write_file(path, text);
  const tt::io::MappedFile file(path);
  CHECK(file.bytes().size() == text.size());
  CHECK(std::memcmp(file.data(), text.data(), text.size()) == 0);
  file.data()[5000] = std::byte{'y'};
  CHECK(tt::load_text(path) == text);
  tt::write_file(folder / "empty", "");
  CHECK(tt::io::MappedFile(folder / "empty").bytes().empty());
}

TEST_CASE("released bytes are read again") {
  const files::TempFolder folder;
  const std::string path = folder / "a.bin";
  std::string text;
  for (int i = 0; i < 40000; ++i) text += static_cast<char>('a' + i % 23);
  tt::write_file(path, text);
  const tt::io::MappedFile file(path);
  file.data()[8192] = std::byte{'!'};  // lost with its page
  file.data()[100] = std::byte{'!'};   // a page that is released in part stays
  file.release(file.bytes().subspan(200, text.size() - 200));
  CHECK(file.data()[8192] == static_cast<std::byte>(text[8192]));
  CHECK(file.data()[100] == std::byte{'!'});
  std::string other(5000, 'z');
  file.release(tt::as_bytes(other));  // other memory is not touched
  CHECK(other == std::string(5000, 'z'));
}

TEST_CASE("files that cannot be mapped throw") {
  const files::TempFolder folder;
  CHECK(files::refusal_of([&] { tt::io::MappedFile file(folder / "none"); }).code == "TT-IO-01");
  CHECK(files::refusal_of([&] { tt::io::MappedFile file(std::string(folder / "")); }).code == "TT-IO-01");
}

TEST_CASE("mapped tensors are those of the file, live longer than the map, and are private") {
  const files::TempFolder folder;
  const std::string path = folder / "t.safetensors";
  tt::Generator g(3);
  tt::TensorMap tensors{{"a", tt::randn({3, 5}, tt::f32, tt::cpu, g)},
                        {"b", tt::randn({7}, tt::f64, tt::cpu, g)},
                        {"c", tt::zeros({0, 2}, tt::f32, tt::cpu)},
                        {"d", tt::from_data(std::vector<int64_t>{1, -2}, {2}, tt::cpu)},
                        {"e", tt::full({}, 2.5, tt::bf16, tt::cpu)},
                        {"f", tt::from_data(std::vector<int64_t>{1, 0, 1}, {3}, tt::cpu).to(tt::boolean)}};
  tt::save_safetensors(path, tensors, {{"key", "text"}});
  const std::vector<std::byte> before = tt::read_file(path);
  tt::Metadata metadata;
  tt::TensorMap mapped =
      tt::map_safetensors(std::make_shared<const tt::io::MappedFile>(path), path, &metadata);
  CHECK(metadata.at("key") == "text");
  REQUIRE(mapped.size() == tensors.size());
  for (const auto& item : tensors) CHECK(files::same(item.second, mapped.at(item.first)));
  const tt::Tensor a = mapped.at("a");
  mapped.clear();
  tt::Tensor view = a.slice(0, 1, 2);
  view.fill_(1);
  CHECK(tt::sum(a.slice(0, 1, 2)).item() == 5);
  CHECK(tt::read_file(path) == before);
}

TEST_CASE("values at addresses that their type forbids are copied") {
  const files::TempFolder folder;
  const std::string path = folder / "odd.safetensors";
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )";  // odd length
  REQUIRE(header.size() % 4 != 0);
  std::vector<std::byte> bytes;
  tt::io::append(bytes, uint64_t{header.size()}, std::endian::little);
  tt::io::append(bytes, tt::as_bytes(header));
  for (const float x : {1.5f, -2.0f}) tt::io::append(bytes, x, std::endian::little);
  tt::write_file(path, bytes);
  const tt::TensorMap mapped =
      tt::map_safetensors(std::make_shared<const tt::io::MappedFile>(path), path, nullptr);
  CHECK(mapped.at("a").to_vector() == std::vector<float>{1.5f, -2.0f});
}
