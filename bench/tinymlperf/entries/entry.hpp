// Reads and writes an entry's model.json: a list of layers. The reader computes all shapes.
//
//   {"schema": 1, "benchmark": "dig", "name": "mlp", "input": [1, 28, 28], "classes": 10,
//    "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 128}, {"type": "relu"}, ...]}
//
// or a language model (gpt_spec.hpp). With "training": {"epochs": 5, ...} the model is to be trained and has
// no weights. With "compile": true the judge's worker runs the forward pass by tt::compile, which changes
// times, but no bit of a result. The default of "benchmark" is "dig". Parameters are named as in
// torch.nn.Sequential ("1.weight", "1.bias"), so weights saved by PyTorch fit. The file is untrusted:
// anything unknown, inconsistent or beyond a limit is a Refusal that says where, and what was expected and
// found.
#pragma once

#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/gpt_spec.hpp>
#include <tinymlperf/entries/shape_inference.hpp>

namespace tinymlperf {

// True if a name may be used: since names appear in tables, file names and web pages, they consist of
// letters, digits, '.', '_' and '-', and begin neither with '.' nor with '-'.
inline bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > limits::kNameLength || name.front() == '.' || name.front() == '-')
    return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
         std::string::npos;
}

namespace detail {

// This is checked first, so that an entry of another benchmark is not refused for its keys.
inline void require_benchmark(const Json& document, const Task& task) {
  const Json found =
      document.is_object() ? document.value("benchmark", Json(kDigitsBenchmark)) : Json(kDigitsBenchmark);
  if (document.is_object() && found != task.benchmark)
    throw Refusal(kFile, "benchmark", show(task.benchmark) + ", the benchmark of this run", show(found));
}

inline void read_title(EntrySpec& spec, const Fields& fields, const Task& task) {
  fields.integer("schema", 1, 1);
  spec.benchmark = task.benchmark;
  spec.name = fields.text("name", limits::kNameLength, nullptr);
  if (!is_plain_name(spec.name))
    fields.refuse("name", "letters, digits, '.', '_' or '-', starting with a letter, digit or '_'",
                  show(spec.name));
  spec.author = fields.text("author", limits::kTextLength, "");
  spec.description = fields.text("description", limits::kTextLength, "");
  spec.compile = fields.boolean("compile", false);
}

inline TrainingSpec read_training(const Json& object) {
  const Fields fields(object, "training",
                      {"optimizer", "schedule", "learning_rate", "weight_decay", "batch", "epochs"});
  TrainingSpec t;
  t.optimizer = fields.one_of("optimizer", t.optimizer.c_str(), {"adamw", "sgd"});
  t.schedule = fields.one_of("schedule", t.schedule.c_str(), {"one_cycle", "cosine", "constant"});
  t.learning_rate = fields.number("learning_rate", 0, 10, t.learning_rate);
  t.weight_decay = fields.number("weight_decay", 0, 10, t.weight_decay);
  t.batch = fields.integer("batch", 2, 4096, t.batch);
  t.epochs = fields.integer("epochs", 1, 1000);
  return t;
}

inline EntrySpec parse_gpt(const Json& document, const Task& task) {
  const Fields fields(document, "",
                      {"schema", "benchmark", "name", "author", "description", "type", "context", "features",
                       "layers", "heads", "training", "compile"});
  EntrySpec spec;
  read_title(spec, fields, task);
  read_gpt(spec, fields, task);
  if (document.contains("training")) spec.training = read_training(document.at("training"));
  return spec;
}

inline Json to_json(const TrainingSpec& t) {
  return {{"optimizer", t.optimizer},       {"schedule", t.schedule}, {"learning_rate", t.learning_rate},
          {"weight_decay", t.weight_decay}, {"batch", t.batch},       {"epochs", t.epochs}};
}

}  // namespace detail

// Parses the text of a model.json. Throws Refusal.
inline EntrySpec parse_entry(const std::string& text, const Task& task = task_of(kDigitsBenchmark)) {
  using namespace detail;
  const Json document = parse_json(text);
  require_benchmark(document, task);
  if (task.text) return parse_gpt(document, task);
  const Fields fields(document, "",
                      {"schema", "benchmark", "name", "author", "description", "input", task.outputs_key,
                       "layers", "training", "compile"});
  EntrySpec spec;
  read_title(spec, fields, task);
  for (const Json& side : fields.array("input", 1, 4))
    spec.input.push_back(fields.check_integer(side, "input", 1, limits::kDimension));
  if (spec.input != task.input) fields.refuse("input", to_text(task.input), to_text(spec.input));
  spec.outputs = fields.integer(task.outputs_key, task.outputs, task.outputs);
  const Json& layers = fields.array("layers", 1, static_cast<size_t>(limits::kLayers));
  ShapeInference inference(spec);
  for (size_t i = 0; i < layers.size(); ++i) inference.add(layers[i], i);
  inference.finish(task.outputs_key);
  if (document.contains("training")) spec.training = read_training(document.at("training"));
  return spec;
}

namespace detail {

inline Json to_json(const Sides& s) { return s.square() ? Json(s.h) : Json{s.h, s.w}; }

inline Json to_json(const LayerSpec& layer) {
  Json object{{"type", layer.type}};
  const bool convolves = layer.type == "conv2d";
  if (layer.in) object["in"] = layer.in;
  if (layer.out) object["out"] = layer.out;
  if (layer.kernel != 0) {
    object["kernel"] = to_json(layer.kernel);
    object["stride"] = to_json(layer.stride);
    object["padding"] = to_json(layer.padding);
  }
  if (layer.output != 0) object["output"] = to_json(layer.output);
  if (convolves) object["groups"] = layer.groups;
  if (convolves || layer.type == "linear") object["bias"] = layer.bias;
  if (layer.type == "dropout") object["p"] = layer.p;
  return object;
}

}  // namespace detail

// The benchmark that the text of a model.json names, "dig" if it names none. If the document is not an object
// or the name is not a text, the result is "dig", too, and parse_entry() refuses it later. Throws Refusal if
// the text is not JSON.
inline std::string benchmark_of(const std::string& text) {
  const Json document = detail::parse_json(text);
  const Json benchmark =
      document.is_object() ? document.value("benchmark", Json(kDigitsBenchmark)) : Json(kDigitsBenchmark);
  return benchmark.is_string() ? benchmark.get<std::string>() : kDigitsBenchmark;
}

// Returns true if the text of a model.json asks for a compiled forward pass, and false if the text is not
// JSON.
inline bool asks_to_compile(const std::string& text) {
  try {
    const Json document = detail::parse_json(text);
    return document.is_object() && document.value("compile", Json(false)) == Json(true);
  } catch (const Refusal&) {
    return false;
  }
}

// Returns how an entry is to be trained. Throws Refusal if it does not say so, or asks for a compiled
// training.
inline const TrainingSpec& require_training(const EntrySpec& spec) {
  if (spec.compile)
    throw Refusal(detail::kFile, "compile",
                  "no such option of a model that is to be trained, since trainings are not compiled",
                  "true");
  if (!spec.training)
    throw Refusal(detail::kFile, "training", "an object that says how the model is to be trained",
                  "no such key");
  return *spec.training;
}

// The inverse of parse_entry(): parse_entry(to_json(spec).dump()) returns the same layers.
inline Json to_json(const EntrySpec& spec) {
  Json document{{"schema", 1},
                {"benchmark", spec.benchmark},
                {"name", spec.name},
                {"author", spec.author},
                {"description", spec.description}};
  if (spec.training) document["training"] = detail::to_json(*spec.training);
  if (spec.compile) document["compile"] = true;
  if (spec.gpt) {
    document.update(detail::to_json(*spec.gpt));
    return document;
  }
  Json layers = Json::array();
  for (const LayerSpec& layer : spec.layers) layers.push_back(detail::to_json(layer));
  document["input"] = spec.input;
  document[task_of(spec.benchmark).outputs_key] = spec.outputs;
  document["layers"] = layers;
  return document;
}

// The part of to_json() that decides what the model computes, without its author's texts and without how it
// is trained and run.
inline Json layers_of_spec(const EntrySpec& spec) {
  Json out = to_json(spec);
  for (const char* own : {"name", "author", "description", "training", "compile"}) out.erase(own);
  return out;
}

}  // namespace tinymlperf
