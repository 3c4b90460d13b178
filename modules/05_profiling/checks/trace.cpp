#include <support/check.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/profiling/trace.hpp>

using namespace course;
using namespace profiling;

namespace {

// The trace, parsed as a viewer does.
Json read(const Profile& profile) {
  const std::string text = chrome_trace(profile);
  try {
    return parse_json(std::as_bytes(std::span(text)));
  } catch (const Error& e) {
    not_equal("chrome_trace gives valid JSON", "JSON",
              std::string(e.what()) + "\n  the text is\n" + text.substr(0, 1500));
  }
}
const Json::Array& events_of(const Json& trace) {
  const Json* events = trace.find("traceEvents");
  expect("the trace is an object with an array `traceEvents`", events && events->array());
  return *events->array();
}
std::string text_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  expect(std::string("an event has \"") + key + "\", a string", value && value->string());
  return *value->string();
}
double number_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  expect(std::string("an event has \"") + key + "\", a number", value && value->number(),
         "a number must not have quotes");
  return value->number()->real;
}

OpRecord op(const char* name, int32_t scope, double start, double seconds) {
  OpRecord r;
  r.name = name;
  r.scope = scope;
  r.start = r.device_start = start;
  r.seconds = r.device_seconds = seconds;
  r.cost = {100, 50};
  return r;
}
Profile small() {
  Profile p;
  p.scopes = {{"", -1, 0, 3}, {"model", 0, 0.5, 2}, {"model.mlp", 1, 0.75, 1}};
  p.ops = {op("linear", 2, 1, 0.25), op("mul", 1, 1.5, 0.000125)};
  p.ops[0].inputs = {{2, 3}, {}, {4}};
  p.ops[1].backward = true;
  p.seconds = 3;
  return p;
}
std::string outline(const Json::Array& events) {
  std::string text;
  for (const Json& e : events)
    text += (text.empty() ? "" : ", ") + text_of(e, "cat") + " " + text_of(e, "name");
  return text;
}
void expect_time(const std::string& what, const Json& event, double start, double seconds) {
  for (const auto& [key, want] : {std::pair{"ts", start * 1e6}, {"dur", seconds * 1e6}}) {
    const double got = number_of(event, key);
    expect(what + ": \"" + key + "\" in microseconds: " + shown(want) + ", got " + shown(got),
           std::abs(got - want) <= 0.001,
           got * 1e6 == want   ? "this is in seconds"
           : got * 1e3 == want ? "this is in milliseconds"
                               : "");
  }
}

}  // namespace

TEST_CASE("5.11 one event per scope, except the whole, and per op") {
  const Json trace = read(small());
  const Json::Array& events = events_of(trace);
  expect_equal("categories and names of the events, in order", outline(events),
               std::string("scope model, scope model.mlp, op linear, op mul"));
  for (const Json& e : events) {
    expect_equal("\"ph\" of an event with a start and a duration", text_of(e, "ph"), std::string("X"));
    expect_equal("\"tid\", the line on which the event is drawn", text_of(e, "tid"), std::string("program"));
    number_of(e, "pid");
  }
}

TEST_CASE("5.11 times are microseconds") {
  const Json trace = read(small());
  const Json::Array& events = events_of(trace);
  expect_equal("events", events.size(), size_t{4});
  expect_time("scope model, 0.5 s to 2.5 s", events[0], 0.5, 2);
  expect_time("scope model.mlp, 0.75 s to 1.75 s", events[1], 0.75, 1);
  expect_time("op linear, 1 s to 1.25 s", events[2], 1, 0.25);
  expect_time("op mul, 1.5 s, for 125 us", events[3], 1.5, 0.000125);
}

TEST_CASE("5.11 the arguments that a viewer shows for an op") {
  const Json trace = read(small());
  const Json::Array& events = events_of(trace);
  expect_equal("events", events.size(), size_t{4});
  const Json *first = events[2].find("args"), *second = events[3].find("args");
  expect("an op has \"args\", an object", first && first->object() && second && second->object());
  expect_equal("flops of linear", number_of(*first, "flops"), 100.0);
  expect_equal("bytes of linear", number_of(*first, "bytes"), 50.0);
  expect_equal("inputs of linear", text_of(*first, "inputs"), std::string("[2, 3] [] [4]"));
  expect_equal("module of linear", text_of(*first, "module"), std::string("model.mlp"));
  expect_equal("pass of linear", text_of(*first, "pass"), std::string("forward"));
  expect_equal("inputs of mul, which has no inputs", text_of(*second, "inputs"), std::string(""));
  expect_equal("module of mul", text_of(*second, "module"), std::string("model"));
  expect_equal("pass of mul", text_of(*second, "pass"), std::string("backward"));
  expect("a scope has \"args\", an empty object", events[0].find("args") &&
                                                      events[0].find("args")->object() &&
                                                      events[0].find("args")->object()->empty());
}

TEST_CASE("5.11 on a GPU an op has a second event for its time on the device") {
  Profile p = small();
  p.ops[0].device = Device{DeviceType::cuda, 0};
  p.ops[0].device_start = 2, p.ops[0].device_seconds = 0.5;
  const Json trace = read(p);
  const Json::Array& events = events_of(trace);
  expect_equal("events, if linear ran on a GPU and mul on the CPU", outline(events),
               std::string("scope model, scope model.mlp, op linear, kernel linear, op mul, scope model, "
                           "scope model.mlp"));
  expect_time("op linear by the host's clock", events[2], 1, 0.25);
  expect_time("kernel linear by the device's clock", events[3], 2, 0.5);
  expect_equal("the kernel's line", text_of(events[3], "tid"), std::string("gpu"));
  expect_equal("the op's line", text_of(events[2], "tid"), std::string("program"));
  expect_equal("the kernel's module", text_of(*events[3].find("args"), "module"), std::string("model.mlp"));
  for (const size_t i : {size_t{5}, size_t{6}}) {
    expect_time("the scope " + text_of(events[i], "name") + " on the GPU, as long as its op ran there",
                events[i], 2, 0.5);
    expect_equal("the line of this scope", text_of(events[i], "tid"), std::string("gpu"));
    expect_equal("the pass of this scope", text_of(*events[i].find("args"), "pass"), std::string("forward"));
  }
}

TEST_CASE("5.11 names with quotes, backslashes and line breaks are escaped") {
  Profile p = small();
  const std::string path = "the \"big\" one\n\\ C:\\model\t", name = "a\"b\\c";
  p.scopes[2].path = path;
  p.ops[0].name = name;
  const Json trace = read(p);
  const Json::Array& events = events_of(trace);
  expect_equal("events", events.size(), size_t{4});
  expect_equal("a scope's name with quotation marks, backslashes and a line break",
               text_of(events[1], "name"), path);
  expect_equal("an op's name with a quotation mark", text_of(events[2], "name"), name);
  expect_equal("the module of that op", text_of(*events[2].find("args"), "module"), path);
}

TEST_CASE("5.11 large numbers, and no events at all") {
  Profile p = small();
  p.ops[1].cost = {123456789012.0, 3};
  p.ops[1].start = 86400.000001;
  const Json trace = read(p);
  expect_equal("123456789012 FLOPs", number_of(*events_of(trace)[3].find("args"), "flops"), 123456789012.0);
  expect_time("an op one day and a microsecond after the beginning", events_of(trace)[3], 86400.000001,
              0.000125);
  Profile empty;
  empty.scopes = {{"", -1, 0, 0}};
  const Json nothing = read(empty);
  expect_equal("events of an empty profile", events_of(nothing).size(), size_t{0});
}
