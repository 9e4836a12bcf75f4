#include "server/messages_input.h"

#include <fmt/format.h>

#include <unordered_map>

#include "server/fields.h"
#include "server/json_access.h"

namespace tokamak::server {

namespace {

Result<std::string> block_text(const Json& block, const std::string& where) {
  const Json* text = member(block, "text");
  if (!text || !text->is_string()) return bad_field(where + ".text", "must be text");
  return text->get<std::string>();
}

Error unknown_block(const std::string& type, const std::string& where) {
  const bool is_media = type == "image" || type == "document";
  return bad_field(where + ".type",
                   is_media ? "the model takes text only, no " + type : fmt::format("'{}' is not known here", type));
}

// A document whose source is plain text.
Result<std::string> document_text(const Json& block, const std::string& where) {
  const Json* source = member(block, "source");
  const Json* data = source && text_member(*source, "type") == "text" ? member(*source, "data") : nullptr;
  if (!data || !data->is_string()) return unknown_block("document", where);
  return data->get<std::string>();
}

// A text, or blocks that are text.
Result<std::vector<std::string>> read_texts(const Json& content, const std::string& where) {
  if (content.is_string()) return std::vector<std::string>{content.get<std::string>()};
  if (!content.is_array()) return bad_field(where, "must be a text or a list of blocks");
  std::vector<std::string> texts;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    const std::string type = text_member(content[i], "type");
    if (type == "document")
      texts.push_back(TRY(document_text(content[i], place)));
    else if (type == "text")
      texts.push_back(TRY(block_text(content[i], place)));
    else
      return unknown_block(type, place);
  }
  return texts;
}

class MessagesReader {
 public:
  Result<void> read_system(const Json& system) {
    begin("system");
    texts_ = TRY(read_texts(system, "system"));
    return {};
  }
  Result<void> read(const Json& message, const std::string& where) {
    const std::string role = text_member(message, "role");
    if (role != "user" && role != "assistant" && role != "system")
      return bad_field(where + ".role", "must be user or assistant");
    const Json* content = member(message, "content");
    if (!content) return bad_field(where + ".content", "is missing");
    begin(role);
    if (role == "system" || !content->is_array()) {
      for (std::string& text : TRY(read_texts(*content, where + ".content"))) texts_.push_back(std::move(text));
      return {};
    }
    for (size_t i = 0; i < content->size(); ++i)
      TRY(read_block((*content)[i], role, fmt::format("{}.content[{}]", where, i)));
    return {};
  }
  std::vector<ChatMessage> end() {
    flush();
    return std::move(messages_);
  }

 private:
  Result<void> read_block(const Json& block, const std::string& role, const std::string& where) {
    const std::string type = text_member(block, "type");
    if (type == "text") {
      texts_.push_back(TRY(block_text(block, where)));
    } else if (type == "document" && role == "user") {
      texts_.push_back(TRY(document_text(block, where)));
    } else if (type == "tool_result" && role == "user") {
      TRY(read_result(block, where));
    } else if (type == "tool_use" && role == "assistant") {
      TRY(read_call(block, where));
    } else if (type == "thinking" && role == "assistant") {
      thought_ = thought_.value_or("") + text_member(block, "thinking");
    } else if (type != "redacted_thinking" || role != "assistant") {
      return unknown_block(type, where);
    }
    return {};
  }

  Result<void> read_result(const Json& block, const std::string& where) {
    const std::string id = text_member(block, "tool_use_id");
    if (id.empty()) return bad_field(where + ".tool_use_id", "must be text");
    std::vector<std::string> texts;
    if (const Json* content = member(block, "content")) texts = TRY(read_texts(*content, where + ".content"));
    const Json* is_error = member(block, "is_error");
    if (is_error && *is_error == true) {
      if (texts.empty()) texts.emplace_back();
      texts[0] = "Error: " + texts[0];
    }
    flush();
    ChatMessage result{.role = "tool", .content = content_of(std::move(texts))};
    if (const auto name = call_names_.find(id); name != call_names_.end()) result.name = name->second;
    result.tool_call_id = id;
    messages_.push_back(std::move(result));
    return {};
  }

  Result<void> read_call(const Json& block, const std::string& where) {
    ToolCall call{.id = text_member(block, "id"), .name = text_member(block, "name"), .arguments = Json::object()};
    if (call.id.empty()) return bad_field(where + ".id", "must be text");
    if (call.name.empty()) return bad_field(where + ".name", "must be text");
    if (const Json* input = member(block, "input")) call.arguments = *input;
    if (!call.arguments.is_object()) return bad_field(where + ".input", "must be an object");
    call_names_[call.id] = call.name;
    calls_.push_back(std::move(call));
    return {};
  }

  void begin(const std::string& role) {
    if (role != role_) flush();
    role_ = role;
  }
  void flush() {
    const bool is_empty = texts_.empty() && calls_.empty() && !thought_;
    if (is_empty && role_ != "assistant") return;
    if (!role_.empty()) {
      ChatMessage message{.role = role_, .content = content_of(std::move(texts_))};
      message.reasoning_content = std::move(thought_);
      message.tool_calls = std::move(calls_);
      messages_.push_back(std::move(message));
    }
    texts_.clear();
    calls_.clear();
    thought_.reset();
  }

  std::vector<ChatMessage> messages_;
  // The turn being read.
  std::string role_;
  std::vector<std::string> texts_;
  std::optional<std::string> thought_;
  std::vector<ToolCall> calls_;
  std::unordered_map<std::string, std::string> call_names_;  // by id
};

}  // namespace

Result<std::vector<ChatMessage>> read_anthropic_messages(const Json* system, const Json& messages) {
  MessagesReader reader;
  if (system) TRY(reader.read_system(*system));
  for (size_t i = 0; i < messages.size(); ++i) TRY(reader.read(messages[i], fmt::format("messages[{}]", i)));
  return reader.end();
}

}  // namespace tokamak::server
