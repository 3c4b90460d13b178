// Serves a language model by OpenAI's API, with a chat page at http://127.0.0.1:8080/.
//
//   serve                                    trains a small model in seconds, and serves it
//   serve --model FOLDER                     a model in the format of Hugging Face's transformers
//   serve --api-key KEY --max-concurrent 32 --pages 4096
//
// /v1/models, /v1/completions, /v1/chat/completions, with streaming; /metrics for Prometheus; /health.
// Requests are computed together, by pages of one cache. SIGTERM and SIGINT let running requests end, take no
// new ones and end the program; a second signal ends it at once. examples/serve/ has the parts.
#include <serve/bundled_model.hpp>
#include <serve/http_server.hpp>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <tinytorch/transformer/hugging_face.hpp>

namespace {

namespace tt = tinytorch;

struct Settings {
  std::string model, save_to, name, chat_template, device = "cpu", dtype = "f32", cache = "model";
  int64_t train_steps = 200, most_prompt = 0, most_texts = 64, budget = 512, pages = 1024, page = 16;
  double timeout = 600;
  serve::HttpOptions http;
};

struct Loaded {
  std::string name;
  std::unique_ptr<tt::Tokenizer> tokenizer;
  std::unique_ptr<tt::LanguageModel> model;
  tt::serving::ChatFormat format;
};

// Writes the bundled model as a folder for --model.
void save(const serve::BundledModel& bundled, const std::string& folder) {
  const auto write = [&](const char* file, std::string_view text) {
    tt::write_file((std::filesystem::path(folder) / file).string(), text);
  };
  tt::save_hugging_face(*bundled.model, folder);
  write("tokenizer.json", tt::to_tokenizer_json(bundled.tokenizer->model()));
  write("tokenizer_config.json", "{\"chat_template\": " + tt::to_json_string(serve::kChatTemplate) + "}\n");
}

Loaded load(const Settings& s) {
  Loaded out;
  if (s.model.empty()) {
    std::printf("no --model is given: a small GPT learns the sentences of a grammar, in a few seconds\n");
    std::fflush(stdout);
    serve::BundledModel bundled = serve::train_bundled_model(s.train_steps);
    if (!s.save_to.empty()) save(bundled, s.save_to);
    out.tokenizer = std::move(bundled.tokenizer);
    out.model = std::move(bundled.model);
    out.model->to(s.device == "cuda" ? tt::cuda : tt::cpu);
    out.name = "grammar";
    out.format = tt::serving::chat_format_named("chatml");
  } else {
    const auto path = [&](const char* file) { return (std::filesystem::path(s.model) / file).string(); };
    const bool json = std::filesystem::exists(path("tokenizer.json"));
    out.tokenizer = std::make_unique<tt::BpeTokenizer>(
        json ? tt::load_tokenizer_json(path("tokenizer.json"))
             : tt::load_gpt2_tokenizer(path("vocab.json"), path("merges.txt")));
    out.model = tt::load_language_model(s.model, {.dtype = s.dtype == "bf16" ? tt::bf16 : tt::f32,
                                                  .device = s.device == "cuda" ? tt::cuda : tt::cpu});
    out.name = std::filesystem::path(s.model).lexically_normal().filename().string();
    if (out.name.empty()) out.name = std::filesystem::path(s.model).parent_path().filename().string();
    if (s.chat_template.empty()) out.format = tt::serving::load_chat_format(s.model);
  }
  if (!s.chat_template.empty()) out.format = tt::serving::chat_format_named(s.chat_template);
  if (!s.name.empty()) out.name = s.name;
  return out;
}

// A thread that waits for SIGTERM and SIGINT. A signal before on_signal() ends the program, the first one
// after it calls the function that was given, and the next one ends the program.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);  // threads that start later inherit it
    std::thread([this] {
      for (;;) {
        int signal = 0;
        sigwait(&set_, &signal);
        std::function<void()> act;
        {
          const std::lock_guard lock(mutex_);
          act.swap(act_);
        }
        if (!act) ::_exit(signal == SIGTERM ? 0 : 130);
        act();
      }
    }).detach();
  }
  void on_signal(std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    act_ = std::move(act);
  }

 private:
  sigset_t set_;
  std::mutex mutex_;
  std::function<void()> act_;
};

tt::serving::EngineOptions engine_options(const Settings& s) {
  tt::serving::EngineOptions out{
      .scheduler = {.budget = s.budget, .sequences = s.most_texts, .pages = s.pages, .page = s.page}};
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::i8})
    if (s.cache == tt::name_of(dtype)) out.cache_dtype = dtype;
  for (const tt::KvFormat format : {tt::KvFormat::fp8, tt::KvFormat::i4})
    if (s.cache == tt::name_of(format)) out.cache_format = format;
  return out;
}

int run(const Settings& s) {
  static Signals signals;  // its thread ends with the program
  const Loaded loaded = load(s);
  tt::serving::Engine engine(*loaded.model, engine_options(s));
  const tt::serving::ServedModel served(loaded.name, *loaded.model, *loaded.tokenizer, loaded.format,
                                        {.prompt = s.most_prompt, .tokens = s.pages * s.page});
  serve::Service service(engine, {.most_texts = s.most_texts});
  serve::HttpOptions http = s.http;
  http.timeout = std::chrono::milliseconds(static_cast<int64_t>(s.timeout * 1000));
  http.threads = static_cast<int>(s.most_texts) + 32;
  serve::HttpServer server(service, served, http);
  const int port = server.bind();
  std::atomic<bool> stopping = false;
  signals.on_signal([&] {
    service.refuse_new();
    stopping = true;
  });
  std::thread drain([&] {
    while (!stopping) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::printf("no new requests; the running ones end. A second signal ends the program at once.\n");
    std::fflush(stdout);
    while (!service.wait_until_idle(std::chrono::milliseconds(50))) {
    }
    server.stop();
  });
  std::printf(
      "%s: %lld parameters, %lld pages of %lld tokens\nhttp://%s:%d/  is a chat page; the API is at /v1\n",
      loaded.name.c_str(), static_cast<long long>(loaded.model->parameter_count()),
      static_cast<long long>(s.pages), static_cast<long long>(s.page), http.host.c_str(), port);
  std::fflush(stdout);
  server.run();
  drain.join();
  std::printf("all requests have ended\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Serve a language model by OpenAI's API");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const CLI::Range counts(1, 1 << 30);
  app.add_option("--host", s.http.host, "Address to listen at; 0.0.0.0 lets other machines in");
  app.add_option("--port", s.http.port, "Port; 0: a free one")->check(CLI::Range(0, 65535));
  app.add_option("--model", s.model, "Folder of a model; without one, a small model is trained")
      ->check(CLI::ExistingDirectory);
  app.add_option("--name", s.name, "Name of the model in the API; if not given, the name of its folder");
  app.add_option("--chat-template", s.chat_template, "Form of chats; if not given, what the folder says")
      ->check(CLI::IsMember({"plain", "chatml", "llama-3", "llama-2", "mistral"}));
  app.add_option("--device", s.device, "Where to compute")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", s.dtype, "Type of the weights of a model from a folder")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--train-steps", s.train_steps, "Steps of training without --model")->check(counts);
  app.add_option("--save", s.save_to, "Folder to save the model in that was trained");
  app.add_option("--api-key", s.http.api_key, "Key that requests must have; if not given, none");
  app.add_option("--max-concurrent", s.most_texts, "Texts that run or wait; above, 429")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-body", s.http.most_body, "Bytes of a request; above, 413")->check(counts);
  app.add_option("--max-prompt", s.most_prompt, "Tokens of a prompt; 0: the context of the model");
  app.add_option("--timeout", s.timeout, "Seconds of a request; above, 504")->check(CLI::Range(0.01, 1e6));
  app.add_option("--pages", s.pages, "Pages of the cache")->check(counts);
  app.add_option("--page", s.page, "Tokens of a page")->check(counts);
  app.add_option("--cache", s.cache,
                 "Numbers of the cache; fewer bits hold more tokens, and change a text a little")
      ->check(CLI::IsMember({"model", "f32", "bf16", "f16", "i8", "fp8", "i4"}));
  app.add_option("--budget", s.budget, "Tokens of a step")->check(counts);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(s);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
