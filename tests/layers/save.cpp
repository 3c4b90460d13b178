// A saved model is loaded with equal bits, also from a training checkpoint; what does not fit changes
// nothing.
#include <unistd.h>

#include <filesystem>
#include <support/check.hpp>
#include <support/errors.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/save.hpp>
#include <tinytorch/layers/sequential.hpp>

namespace tt = tinytorch;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tinytorch-save-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};
tt::Sequential net_of(int64_t hidden) {
  return tt::Sequential{tt::Linear(3, hidden), tt::BatchNorm1d(hidden), tt::ReLU(), tt::Linear(hidden, 2)};
}
bool equal(const tt::Module& a, const tt::Module& b) {
  const tt::StateDict x = a.state_dict(), y = b.state_dict();
  if (x.size() != y.size()) return false;
  for (const auto& [name, tensor] : x)
    if (tensor.to(tt::f64).to_vector<double>() != y.at(name).to(tt::f64).to_vector<double>()) return false;
  return true;
}

}  // namespace

TEST_CASE("save and load: parameters and buffers, with equal bits, also in another dtype") {
  const Folder folder;
  tt::Sequential net = net_of(4), again = net_of(4), wide = net_of(4);
  net(tt::randn({8, 3}));  // moves the running means
  const std::string path = folder / "net.safetensors";
  tt::save(net, path);
  CHECK_FALSE(equal(net, again));
  tt::load(again, path);
  CHECK(equal(net, again));
  wide.to(tt::f64);
  tt::load(wide, path);
  CHECK(equal(net, wide));
  CHECK(wide.parameters()[0].dtype() == tt::f64);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) ==
        1);  // no temporary file is left
}

TEST_CASE("load reads the model of a training checkpoint") {
  const Folder folder;
  tt::Sequential net = net_of(4), again = net_of(4);
  tt::AdamW optimizer(net.named_parameters());
  tt::DataLoader loader(tt::randn({6, 3}).to(tt::cpu), tt::zeros({6}, tt::i64, tt::cpu), {.batch_size = 2});
  const std::string path = folder / "run.safetensors";
  tt::save_checkpoint(path, net, optimizer, loader, {});
  tt::load(again, path);
  CHECK(equal(net, again));
}

TEST_CASE("another ending, a missing file and another model are refused, and nothing changes") {
  const Folder folder;
  tt::Sequential net = net_of(4), other = net_of(5), before = net_of(5);
  before.load_state_dict(other.state_dict());
  const std::string path = folder / "net.safetensors";
  tt::save(net, path);
  CHECK(errors::thrown_by([&] { tt::save(net, folder / "net.pt"); }).code == "TT-IO-02");
  CHECK_FALSE(std::filesystem::exists(folder / "net.pt"));
  CHECK(errors::thrown_by([&] { tt::load(other, folder / "none.safetensors"); }).code == "TT-IO-01");
  const errors::Thrown misfit = errors::thrown_by([&] { tt::load(other, path); });
  CHECK(misfit.code == "TT-NN-04");
  CHECK(misfit.file.find("save.cpp") != std::string::npos);
  CHECK(equal(other, before));
}
