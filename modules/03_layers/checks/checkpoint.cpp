#include <support/check.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/checkpoint.hpp>

using namespace course;

namespace {

// A temporary file, removed by the destructor.
struct File {
  std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : P_tmpdir) +
                     "/course-checkpoint-" + std::to_string(std::random_device{}());
  ~File() { std::remove(path.c_str()); }
};

// A module with one parameter and one buffer.
struct Net : Module {
  explicit Net(int64_t size) {
    weight = add_parameter("weight", zeros({size}));
    buffer = add_buffer("seen", zeros({size}));
  }
  Tensor weight, buffer;
};
// An optimizer: p -= lr m, m = m / 2 + g.
class Momentum : public Optimizer {
 public:
  explicit Momentum(const Net& net)
      : Optimizer(net.named_parameters(), 0.5, 0, {"momentum"}, Loc::current()) {}

 protected:
  void update(Slot& slot, const Tensor& gradient) override {
    slot.state[0].copy_(slot.state[0] * 0.5 + gradient);
    slot.master.copy_(slot.master.detach() - slot.state[0] * lr());
  }
};
// A data source whose batches are consecutive numbers.
class Source : public BatchSource {
 public:
  explicit Source(std::string options) : options_(std::move(options)) {}
  std::optional<Batch> next() override {
    state_ =
        state_.batch == 2 ? LoaderState{state_.epoch + 1, 0} : LoaderState{state_.epoch, state_.batch + 1};
    const auto value = static_cast<double>(3 * state_.epoch + state_.batch);
    return Batch{full({4}, value, f32), {}};
  }
  LoaderState state() const override { return state_; }
  void set_state(LoaderState state, Loc) override { state_ = state; }
  std::string signature() const override { return options_; }

 private:
  LoaderState state_;
  std::string options_;
};

struct Run {
  Net net;
  Momentum optimizer{net};
  Source source;
  RunState state;
  explicit Run(int64_t size = 4, const std::string& options = "batches of 3") : net(size), source(options) {}
  // The gradient depends on the batch, the random numbers and the weights; the buffer counts the steps.
  void steps(int count) {
    for (int k = 0; k < count; ++k) {
      const Tensor x = source.next()->inputs;
      net.weight.set_grad(x + net.weight.detach() * 0.1 + default_generator().uniform());
      optimizer.step();
      net.buffer.add_(x, 1);
      state.step += 1;
      state.samples += 4;
      state.loss_sum += 0.1 * static_cast<double>(state.step);
    }
  }
  void save(const std::string& path) {
    state.loader = source.state();
    state.random = default_generator().state();
    save_checkpoint(path, net, optimizer, source, state);
  }
  void load(const std::string& path) { state = load_checkpoint(path, net, optimizer, source); }
};

void expect_same(const std::string& what, const Tensor& got, const Tensor& want) {
  expect_close(what, got.to_vector<double>(), want.to_vector<double>(), want.shape(),
               {.roundings = 0, .scale = 0});
}
void expect_untouched(const std::string& after, const Run& run) {
  expect_same("weight after " + after, run.net.weight, zeros(run.net.weight.shape()));
  expect_same("buffer after " + after, run.net.buffer, zeros(run.net.weight.shape()));
  expect("the position of the data is the start after " + after, run.source.state() == LoaderState{},
         "compare everything before you change anything");
}

}  // namespace

TEST_CASE("3.18 weights and buffers are restored") {
  const File file;
  Run run, other;
  run.steps(3);
  run.save(file.path);
  other.load(file.path);
  expect_same("weight after load_checkpoint", other.net.weight, run.net.weight);
  expect_same("buffer after load_checkpoint", other.net.buffer, run.net.buffer);
}

TEST_CASE("3.18 the optimizer's state is restored") {
  const File file;
  Run run, other;
  run.steps(3);
  run.optimizer.set_lr(0.0625);
  run.save(file.path);
  other.load(file.path);
  const StateDict want = run.optimizer.state_dict(), got = other.optimizer.state_dict();
  expect_same("momentum after load_checkpoint", got.at("weight.momentum"), want.at("weight.momentum"));
  expect_same("number of updates after load_checkpoint", got.at("weight.step"), want.at("weight.step"));
  expect_equal("learning rate after load_checkpoint", other.optimizer.lr(), 0.0625);
}

TEST_CASE("3.18 the positions of data, schedule and generator are restored") {
  const File file;
  Run run, other;
  run.steps(5);
  run.state.loss_sum = 1.0 / 3;
  run.state.metric_sum = 1e-300;
  run.save(file.path);
  const GeneratorState random = default_generator().state();
  manual_seed(99);
  other.load(file.path);
  expect_equal("step", other.state.step, int64_t{5});
  expect_equal("samples", other.state.samples, int64_t{20});
  expect_equal("loss_sum", other.state.loss_sum, 1.0 / 3);
  expect_equal("metric_sum", other.state.metric_sum, 1e-300);
  expect_equal("the epoch of the data after load_checkpoint", other.source.state().epoch,
               run.source.state().epoch);
  expect_equal("the batch of the data after load_checkpoint", other.source.state().batch,
               run.source.state().batch);
  expect("the default generator has its saved state", default_generator().state() == random,
         "otherwise dropout would draw other numbers");
}

TEST_CASE("3.18 a run that is stopped and continued gives the same bits") {
  const File file;
  manual_seed(5);
  Run whole, first, second;
  whole.steps(9);
  manual_seed(5);
  first.steps(4);
  first.save(file.path);
  manual_seed(77);
  second.load(file.path);
  second.steps(5);
  expect_same("weight after 4 steps, save, load and 5 more steps, compared with 9 steps", second.net.weight,
              whole.net.weight);
  expect_same("buffer after 4 steps, save, load and 5 more steps, compared with 9 steps", second.net.buffer,
              whole.net.buffer);
  expect_equal("loss_sum", second.state.loss_sum, whole.state.loss_sum);
}

TEST_CASE("3.18 a checkpoint that does not fit is refused, and nothing is changed") {
  const File file, plain;
  Run run;
  run.steps(2);
  run.save(file.path);

  Run other_data(4, "batches of 5");
  expect_throws("TT-CKPT-02", "load_checkpoint with data of another batch size",
                [&] { other_data.load(file.path); });
  expect_untouched("the refusal of other batches", other_data);

  Run other_sizes(7);
  expect_throws("TT-NN-04", "load_checkpoint into a model with other shapes",
                [&] { other_sizes.load(file.path); });
  expect_untouched("the refusal of another model", other_sizes);

  Run fits;
  expect_throws("TT-NN-04", "load_checkpoint into the right model with the optimizer of another model",
                [&] { load_checkpoint(file.path, fits.net, other_sizes.optimizer, fits.source); });
  expect_untouched("the refusal of another optimizer", fits);

  save_safetensors(plain.path, {{"model.weight", zeros({4})}}, {});
  expect_throws("TT-CKPT-01", "load_checkpoint of a safetensors file that is not a checkpoint",
                [&] { fits.load(plain.path); });
}
