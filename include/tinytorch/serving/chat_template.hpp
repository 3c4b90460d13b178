// Chat templates: how the messages of a conversation become the prompt of a model that was trained on chats.
//
//   const ChatFormat format = load_chat_format("folder");             // what tokenizer_config.json says
//   const Tokens prompt = encode_parts(tokenizer, render_chat(format, {{"user", "Hello"}}));
//
// The templates in the files are Jinja programs. They are not executed: the format is recognized by the
// markers in the program, and an unknown program is refused (TT-SERVE-10). A default system message that a
// program adds, such as a date, is not added. Markers become special tokens, but the text of a message never
// does, so that a message cannot pretend to be another one.
// Sources: the model cards of Llama 2 and Llama 3, Mistral's tokenization guide, OpenAI's ChatML.
#pragma once

#include <optional>
#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

// plain has lines "user: text", for models without a template; the other names are those of --chat-template.
enum class ChatStyle { plain, chatml, llama3, llama2, mistral };

struct ChatFormat {
  ChatStyle style = ChatStyle::plain;
  std::string begin{}, end{};  // the special tokens around a text, or empty
  bool spaced = true;  // mistral: "[INST] text [/INST]" as in its first versions, not "[INST]text[/INST]"
};

struct PromptPart {
  std::string text;
  bool marker;  // a special token, if the tokenizer has one of this text
};

// Returns the format with the name plain, chatml, llama-3, llama-2 or mistral. Throws TT-SERVE-10 for another
// name.
inline ChatFormat chat_format_named(const std::string& name, TT_LOC);

// The format that the text of tokenizer_config.json asks for, or plain if it has no template. `program`, if
// it is not empty, is the content of chat_template.jinja, which newer folders have instead.
inline ChatFormat parse_chat_format(Bytes config, const std::string& name, const std::string& program = "",
                                    TT_LOC);
inline ChatFormat load_chat_format(const std::string& folder, TT_LOC);

// The prompt that asks for the next message of the assistant. Throws TT-SERVE-11 if the format is llama-2 or
// mistral and the messages are not those of user and assistant in turn, after at most one system message.
inline std::vector<PromptPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                           TT_LOC);

// Adjacent texts are encoded together. A marker without a special token is encoded as text.
inline Tokens encode_parts(const Tokenizer& tokenizer, std::span<const PromptPart> parts, TT_LOC);

// The tokens and the strings that end a message of the assistant, besides the end tokens of the model.
inline std::vector<int64_t> chat_end_tokens(const ChatFormat& format, const Tokenizer& tokenizer);
inline std::vector<std::string> chat_stops(const ChatFormat& format);

// ---------------------------------------------------------------------------------------------------------

namespace chat {

// The number of a special token, if the tokenizer has one of this text.
inline std::optional<int32_t> special_token(const Tokenizer& tokenizer, const std::string& text) {
  const auto* const bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (!bpe) return std::nullopt;
  const auto found = bpe->model().specials.find(text);
  return found == bpe->model().specials.end() ? std::nullopt : std::optional(found->second);
}

inline std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// A special token of tokenizer_config.json: a string, or an object with a member `content`.
inline std::string token_text(const Json& config, const char* name, const std::string& otherwise) {
  const Json* token = config.find(name);
  if (token && token->object()) token = token->find("content");
  return token && token->string() ? *token->string() : otherwise;
}

// chat_template: a string, or an array of {name, template}, of which the one named "default" counts.
inline std::string program_of(const Json& config, const io::Source& source) {
  const Json* const found = config.find("chat_template");
  if (!found || found->is_null()) return "";
  if (found->string()) return *found->string();
  if (const Json::Array* const several = found->array()) {
    for (const Json& one : *several) {
      const Json *const name = one.find("name"), *const program = one.find("template");
      if (name && name->string() && *name->string() == "default" && program && program->string())
        return *program->string();
    }
  }
  source.reject("chat_template as a string, or as an array with a template named \"default\"", found->kind());
}

inline ChatFormat recognized(const std::string& program, const std::string& name, Loc loc) {
  const auto has = [&](const char* marker) { return program.find(marker) != std::string::npos; };
  if (program.empty()) return {};
  if (has("<|start_header_id|>")) return chat_format_named("llama-3", loc);
  if (has("<|im_start|>")) return chat_format_named("chatml", loc);
  if (has("<<SYS>>")) return chat_format_named("llama-2", loc);
  if (has("[INST]")) {
    ChatFormat format = chat_format_named("mistral", loc);
    format.spaced = has("[INST] ");
    return format;
  }
  fail("TT-SERVE-10",
       "'" + name +
           "': the chat template is none of chatml, llama-3, llama-2 and mistral\n  hint: choose one with "
           "--chat-template, or plain, which has lines like \"user: Hello\"",
       loc);
}

// Messages as (user, assistant) pairs; the last one has no assistant. The system message joins a user's.
struct Turn {
  std::string user, assistant;
};
struct Turns {
  std::string system{};
  std::vector<Turn> turns{};
};
inline Turns turns_of(std::span<const ChatMessage> messages, Loc loc) {
  Turns out;
  if (!messages.empty() && messages[0].role == "system") {
    out.system = messages[0].content;
    messages = messages.subspan(1);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != (i % 2 == 0 ? "user" : "assistant")) {
      fail("TT-SERVE-11",
           "message " + std::to_string(i) + " after the system message is of the role '" + messages[i].role +
               "'\n  rule: this model takes messages of user and assistant in turn, beginning with the user",
           loc);
    }
    if (i % 2 == 0)
      out.turns.push_back({messages[i].content, ""});
    else
      out.turns.back().assistant = messages[i].content;
  }
  if (messages.size() % 2 == 0) {
    fail("TT-SERVE-11", "the last message is not one of the user\n  rule: this model answers a user", loc);
  }
  return out;
}

using Parts = std::vector<PromptPart>;

inline void add_text(Parts& out, const std::string& text) {
  if (text.empty()) return;
  if (!out.empty() && !out.back().marker)
    out.back().text += text;
  else
    out.push_back({text, false});
}
inline void add_marker(Parts& out, const std::string& text) {
  if (!text.empty()) out.push_back({text, true});
}

inline Parts render_chatml(std::span<const ChatMessage> messages) {
  Parts out;
  for (const ChatMessage& m : messages) {
    add_marker(out, "<|im_start|>");
    add_text(out, m.role + "\n" + m.content);
    add_marker(out, "<|im_end|>");
    add_text(out, "\n");
  }
  add_marker(out, "<|im_start|>");
  add_text(out, "assistant\n");
  return out;
}
inline Parts render_llama3(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Parts out;
  const auto header = [&](const std::string& role) {
    add_marker(out, "<|start_header_id|>");
    add_text(out, role);
    add_marker(out, "<|end_header_id|>");
  };
  add_marker(out, format.begin);
  for (const ChatMessage& m : messages) {
    header(m.role);
    add_text(out, "\n\n" + trimmed(m.content));
    add_marker(out, "<|eot_id|>");
  }
  header("assistant");
  add_text(out, "\n\n");
  return out;
}
// Each turn has a begin token of its own; the system message stands in the first one.
inline Parts render_llama2(const ChatFormat& format, const Turns& chat) {
  Parts out;
  for (size_t i = 0; i < chat.turns.size(); ++i) {
    const Turn& turn = chat.turns[i];
    const bool with_system = i == 0 && !chat.system.empty();
    add_marker(out, format.begin);
    add_marker(out, "[INST]");
    add_text(out, " ");
    if (with_system) {
      add_marker(out, "<<SYS>>");
      add_text(out, "\n" + chat.system + "\n");
      add_marker(out, "<</SYS>>");
      add_text(out, "\n\n");
    }
    add_text(out, trimmed(turn.user) + " ");
    add_marker(out, "[/INST]");
    if (i + 1 == chat.turns.size()) break;
    add_text(out, " " + trimmed(turn.assistant) + " ");
    add_marker(out, format.end);
  }
  return out;
}
// One begin token; the system message stands in the first turn.
inline Parts render_mistral(const ChatFormat& format, const Turns& chat) {
  Parts out;
  const std::string space = format.spaced ? " " : "";
  add_marker(out, format.begin);
  for (size_t i = 0; i < chat.turns.size(); ++i) {
    const Turn& turn = chat.turns[i];
    add_marker(out, "[INST]");
    add_text(out, space + (i == 0 && !chat.system.empty() ? chat.system + "\n\n" : "") + turn.user + space);
    add_marker(out, "[/INST]");
    if (i + 1 == chat.turns.size()) break;
    add_text(out, space + turn.assistant);
    add_marker(out, format.end);
  }
  return out;
}

}  // namespace chat

inline ChatFormat chat_format_named(const std::string& name, Loc loc) {
  if (name == "plain") return {};
  if (name == "chatml") return {ChatStyle::chatml, "", "<|im_end|>"};
  if (name == "llama-3") return {ChatStyle::llama3, "<|begin_of_text|>", "<|eot_id|>"};
  if (name == "llama-2") return {ChatStyle::llama2, "<s>", "</s>"};
  if (name == "mistral") return {ChatStyle::mistral, "<s>", "</s>"};
  fail("TT-SERVE-10",
       "there is no chat template " + io::in_quotes(name) +
           "\n  hint: plain, chatml, llama-3, llama-2 and mistral are the values of --chat-template",
       loc);
}

inline ChatFormat parse_chat_format(Bytes config, const std::string& name, const std::string& program,
                                    Loc loc) {
  const io::Source source{name, "a tokenizer's configuration", loc};
  const Json json = parse_json(config, source);
  if (!json.object()) source.reject("an object", json.kind());
  ChatFormat format = chat::recognized(program.empty() ? chat::program_of(json, source) : program, name, loc);
  if (format.style == ChatStyle::llama2 || format.style == ChatStyle::mistral) {
    format.begin = chat::token_text(json, "bos_token", format.begin);
    format.end = chat::token_text(json, "eos_token", format.end);
  }
  return format;
}

inline ChatFormat load_chat_format(const std::string& folder, Loc loc) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 26;
  const std::string config = hugging_face::in_folder(folder, "tokenizer_config.json"),
                    program = hugging_face::in_folder(folder, "chat_template.jinja");
  const std::string text = hugging_face::exists(program)
                               ? parse_text(read_file(program, kMostBytes, loc), program, loc)
                               : std::string();
  if (!hugging_face::exists(config)) return chat::recognized(text, program, loc);
  return parse_chat_format(read_file(config, kMostBytes, loc), config, text, loc);
}

inline std::vector<PromptPart> render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                           Loc loc) {
  switch (format.style) {
    case ChatStyle::chatml:
      return chat::render_chatml(messages);
    case ChatStyle::llama3:
      return chat::render_llama3(format, messages);
    case ChatStyle::llama2:
      return chat::render_llama2(format, chat::turns_of(messages, loc));
    case ChatStyle::mistral:
      return chat::render_mistral(format, chat::turns_of(messages, loc));
    case ChatStyle::plain:
      break;
  }
  std::string text;
  for (const ChatMessage& m : messages) text += m.role + ": " + m.content + "\n";
  return {{text + "assistant:", false}};
}

inline Tokens encode_parts(const Tokenizer& tokenizer, std::span<const PromptPart> parts, Loc loc) {
  Tokens out;
  std::string text;
  const auto encode_text = [&] {
    const Tokens added = tokenizer.encode(text, loc);
    out.insert(out.end(), added.begin(), added.end());
    text.clear();
  };
  for (const PromptPart& part : parts) {
    const auto token = part.marker ? chat::special_token(tokenizer, part.text) : std::nullopt;
    if (!token) {
      text += part.text;
      continue;
    }
    encode_text();
    out.push_back(*token);
  }
  encode_text();
  return out;
}

inline std::vector<int64_t> chat_end_tokens(const ChatFormat& format, const Tokenizer& tokenizer) {
  const auto token = chat::special_token(tokenizer, format.end);
  return token ? std::vector<int64_t>{*token} : std::vector<int64_t>{};
}

inline std::vector<std::string> chat_stops(const ChatFormat& format) {
  return format.style == ChatStyle::plain ? std::vector<std::string>{"\nuser:"} : std::vector<std::string>{};
}

}  // namespace tinytorch::inline TT_BUILD::serving
