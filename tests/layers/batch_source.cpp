// A user-defined BatchSource can be used for training and saved in a checkpoint.
#include <tinytorch/layers/batch_source.hpp>

#include <io/files.hpp>
#include <support/errors.hpp>
#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// Serves the batches 0, 1, 2, ... of one number each.
class Counter : public tt::BatchSource {
 public:
  explicit Counter(std::string name) : name_(std::move(name)) {}
  std::optional<tt::Batch> next() override {
    const tt::Tensor number = tt::full({1, 1}, static_cast<double>(state_.batch++), tt::f32, tt::cpu);
    return tt::Batch{number, number};
  }
  tt::LoaderState state() const override { return state_; }
  void set_state(tt::LoaderState state, tt::Loc) override { state_ = state; }
  std::string signature() const override { return name_; }

 private:
  std::string name_;
  tt::LoaderState state_;
};

}  // namespace

TEST_CASE("a checkpoint restores the position of any source, and rejects another source") {
  const files::TempFolder folder;
  const std::string path = folder / "run.safetensors";
  tt::Linear net(1, 1);
  tt::SGD optimizer(net.named_parameters());
  Counter source("numbers"), other("numbers"), letters("letters");
  for (int i = 0; i < 3; ++i) source.next();
  tt::RunState run;
  run.step = 3, run.loader = source.state();
  tt::save_checkpoint(path, net, optimizer, source, run);
  CHECK(tt::load_checkpoint(path, net, optimizer, other).step == 3);
  CHECK(other.next()->inputs.item() == 3);
  CHECK(message_of([&] { tt::load_checkpoint(path, net, optimizer, letters); }).starts_with("TT-CKPT-02"));
  CHECK(letters.state() == tt::LoaderState{});
}

TEST_CASE("Batch::to moves inputs and targets; a DataLoader is a BatchSource") {
  const tt::Batch batch = tt::Batch{tt::ones({2}, tt::f32, tt::cpu), tt::ones({2}, tt::i64, tt::cpu)};
  const tt::Batch moved = batch.to(tt::default_device());
  CHECK(moved.inputs.device() == tt::default_device());
  CHECK(moved.targets.dtype() == tt::i64);
  tt::DataLoader loader(tt::zeros({5, 2}, tt::f32, tt::cpu), tt::zeros({5}, tt::i64, tt::cpu),
                        {.batch_size = 2});
  tt::BatchSource& source = loader;
  int batches = 0;
  while (source.next()) ++batches;
  CHECK(batches == 3);
  CHECK(source.state() == tt::LoaderState{1, 0});
  CHECK(source.signature() == "5 samples, batches of 2, seed 0");
}
