// pretrain on token files: a folder holds the run, and a run in two parts equals a run in one.
#include <tinytorch/transformer/pretraining.hpp>

#include <io/files.hpp>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/io/text.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tt = tinytorch;

namespace {

tt::Gpt2Config tiny(int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = 8,
          .features = 8,
          .layers = 1,
          .heads = 2,
          .embedding_dropout = 0.1};
}

}  // namespace

TEST_CASE("write_split writes two files, the last tenth for validation") {
  const files::TempFolder folder;
  const std::string text = "abcabcabcabcabcabcabcabcabcab";  // 29
  const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
  const tt::TokenWidth width = tt::write_split(folder / "t.bin", folder / "v.bin", characters, text);
  CHECK(width == tt::TokenWidth::u16);
  const tt::TokenFile train(folder / "t.bin", width), validation(folder / "v.bin", width);
  CHECK(train.size() == 27);
  CHECK(validation.size() == 2);
  CHECK(validation[0] == 0);
  CHECK(validation[1] == 1);
}

TEST_CASE("a run in two parts equals a run in one; the folder holds the run; biases do not decay" *
          test::long_on_emulator()) {
  const files::TempFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "one two three ";
  const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
  const tt::TokenWidth width = tt::write_split(folder / "t.bin", folder / "v.bin", characters, text);
  const tt::TokenFile train(folder / "t.bin", width), validation(folder / "v.bin", width);
  tt::PretrainingOptions options{.batch = 2, .length = 8, .steps = 6, .warm_up = 2, .report_every = 2};
  options.evaluate_batches = 2, options.progress = nullptr;
  const auto weights = [&](const std::string& name, bool in_two) {
    std::filesystem::create_directories(folder / name);
    tt::PretrainingOptions o = options;
    o.folder = folder / name;
    tt::manual_seed(5);
    tt::Gpt2 model(tiny(characters.vocabulary()));
    if (in_two) {
      o.stop_after = 3;
      CHECK(tt::pretrain(model, train, validation, o).back().step == 3);
      o.stop_after = 0, o.resume = true;
      tt::manual_seed(77);
      tt::Gpt2 other(tiny(characters.vocabulary()));
      const auto reports = tt::pretrain(other, train, validation, o);
      CHECK(reports.back().step == 6);
      CHECK(!std::isnan(reports.back().validation_loss));
    } else {
      tt::pretrain(model, train, validation, o);
    }
    return tt::read_file(folder / (name + "/checkpoint.safetensors"));
  };
  const auto whole = weights("whole", false), parts = weights("parts", true);
  CHECK(whole == parts);
  CHECK(tt::load_lines(folder / "whole/log.jsonl").size() == 3);
  CHECK(weights("whole", false) == whole);  // again, in the folder of an earlier run
  CHECK(tt::load_lines(folder / "whole/log.jsonl").size() == 3);
  // The log of a run that continued after its checkpoint and was killed while it wrote has each step once
  // after the run is resumed.
  options.folder = folder / "parts", options.checkpoint_every = 2;
  const auto steps_logged = [&] {
    std::vector<int64_t> steps;
    for (const tt::Json& line : tt::load_log(folder / "parts/log.jsonl").objects)
      steps.push_back(line.find("step")->integer().value());
    return steps;
  };
  options.stop_after = 4;
  tt::Gpt2 killed(tiny(characters.vocabulary()));
  tt::pretrain(killed, train, validation, options);
  CHECK(steps_logged() == std::vector<int64_t>{2, 4});
  std::FILE* const log = std::fopen((folder / "parts/log.jsonl").c_str(), "a");
  std::fputs("{\"step\": 6, \"train_loss\": 1}\n{\"step\": 8, \"tra", log);
  std::fclose(log);
  options.resume = true, options.stop_after = 0;
  tt::Gpt2 resumed(tiny(characters.vocabulary()));
  CHECK(tt::pretrain(resumed, train, validation, options).back().step == 6);
  CHECK(steps_logged() == std::vector<int64_t>{2, 4, 6});
  CHECK(tt::load_lines(folder / "parts/log.jsonl").size() == 3);

  options.folder.clear();
  tt::Gpt2 model(tiny(characters.vocabulary()));
  CHECK(message_of([&] {
          tt::pretrain(model, train, validation, options);
        }).starts_with("TT-TRAIN-01: pretrain"));
  tt::manual_seed(0);
}
