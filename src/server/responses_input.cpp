#include "server/responses_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "server/fields.h"
#include "server/json_access.h"

namespace tokamak::server {

namespace {

class InputReader {
 public:
  explicit InputReader(const std::string& instructions) {
    if (!instructions.empty()) system_.push_back(instructions);
  }

  Result<std::vector<ChatMessage>> read(const Json& input) {
    if (input.is_string()) {
      add_message("user", {input.get<std::string>()});
    } else if (!input.is_array()) {
      return bad_field("input", "must be a text or a list of items");
    } else {
      for (size_t i = 0; i < input.size(); ++i) TRY(read_item(input[i], fmt::format("input[{}]", i)));
    }
    if (messages_.empty() && system_.empty()) return bad_field("input", "is empty");
    if (!system_.empty())
      messages_.insert(messages_.begin(), {.role = "system", .content = fmt::format("{}", fmt::join(system_, "\n\n"))});
    return std::move(messages_);
  }

 private:
  Result<void> read_item(const Json& item, const std::string& where) {
    if (!item.is_object()) return bad_field(where, "must be an object");
    const std::string type = item.contains("type") ? text_member(item, "type") : "message";
    if (type == "message") return read_message(item, where);
    if (type == "reasoning") return read_reasoning(item, where);
    if (type == "function_call") return read_call(item, member(item, "arguments"), where);
    if (type == "custom_tool_call") {
      const Json arguments = {{"input", text_member(item, "input")}};
      return read_call(item, &arguments, where);
    }
    if (type == "function_call_output" || type == "custom_tool_call_output") return read_output(item, where);
    if (type == "item_reference")
      return bad_field(where,
                       "refers to a stored item, but nothing is stored: "
                       "send the item itself");
    return bad_field(where + ".type", fmt::format("'{}' is not known: message, reasoning, function_call or "
                                                  "function_call_output",
                                                  type));
  }

  Result<void> read_message(const Json& item, const std::string& where) {
    const std::string role = text_member(item, "role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      return bad_field(where + ".role", "must be user, assistant, system or developer");
    const Json* content = member(item, "content");
    if (!content) return bad_field(where + ".content", "is missing");
    std::vector<std::string> texts = TRY(read_texts(*content, where + ".content"));
    const bool is_system = role == "system" || role == "developer";
    if (is_system && messages_.empty()) {
      for (std::string& text : texts) system_.push_back(std::move(text));
    } else if (role == "assistant") {
      for (const std::string& text : texts) append(std::get<std::string>(answer().content), text);
    } else {
      add_message(is_system ? "system" : "user", std::move(texts));
    }
    return {};
  }

  Result<void> read_reasoning(const Json& item, const std::string& where) {
    std::vector<std::string> texts;
    if (const Json* content = member(item, "content")) texts = TRY(read_texts(*content, where + ".content"));
    const Json* summary = member(item, "summary");
    if (texts.empty() && summary) texts = TRY(read_texts(*summary, where + ".summary"));
    if (texts.empty()) return {};  // encrypted elsewhere
    std::optional<std::string>& thought = answer().reasoning_content;
    if (!thought) thought.emplace();
    for (const std::string& text : texts) append(*thought, text);
    return {};
  }

  Result<void> read_call(const Json& item, const Json* arguments, const std::string& where) {
    ToolCall call{.id = text_member(item, "call_id"), .name = text_member(item, "name"), .arguments = Json::object()};
    if (call.id.empty()) return bad_field(where + ".call_id", "must be text");
    if (call.name.empty()) return bad_field(where + ".name", "must be text");
    if (arguments && !(arguments->is_string() && arguments->get<std::string>().empty())) call.arguments = *arguments;
    call_names_[call.id] = call.name;
    answer().tool_calls.push_back(std::move(call));
    return {};
  }

  Result<void> read_output(const Json& item, const std::string& where) {
    const std::string id = text_member(item, "call_id");
    if (id.empty()) return bad_field(where + ".call_id", "must be text");
    const Json* output = member(item, "output");
    if (!output) return bad_field(where + ".output", "is missing");
    ChatMessage result{.role = "tool"};
    result.content = content_of(TRY(read_texts(*output, where + ".output")));
    if (const auto name = call_names_.find(id); name != call_names_.end()) result.name = name->second;
    result.tool_call_id = id;
    messages_.push_back(std::move(result));
    return {};
  }

  // A text, or parts of which each is one.
  static Result<std::vector<std::string>> read_texts(const Json& content, const std::string& where) {
    if (content.is_string()) return std::vector<std::string>{content.get<std::string>()};
    if (!content.is_array()) return bad_field(where, "must be a text or a list of parts");
    std::vector<std::string> texts;
    for (size_t i = 0; i < content.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", where, i);
      const std::string type = text_member(content[i], "type");
      constexpr std::string_view kTexts[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text"};
      const bool is_text = std::ranges::find(kTexts, type) != std::end(kTexts);
      if (!is_text && type != "refusal")
        return bad_field(place + ".type", fmt::format("'{}' is not known: the model takes text only", type));
      const Json* text = member(content[i], is_text ? "text" : "refusal");
      if (!text || !text->is_string()) return bad_field(place, "must hold text");
      texts.push_back(text->get<std::string>());
    }
    return texts;
  }

  // The assistant's turn, begun if need be.
  ChatMessage& answer() {
    if (messages_.empty() || messages_.back().role != "assistant")
      messages_.push_back({.role = "assistant", .content = std::string()});
    return messages_.back();
  }
  static void append(std::string& so_far, const std::string& text) {
    if (!so_far.empty() && !text.empty()) so_far += '\n';
    so_far += text;
  }
  void add_message(std::string role, std::vector<std::string> texts) {
    messages_.push_back({.role = std::move(role), .content = content_of(std::move(texts))});
  }

  std::vector<std::string> system_;
  std::unordered_map<std::string, std::string> call_names_;  // by call_id
  std::vector<ChatMessage> messages_;
};

}  // namespace

Result<std::vector<ChatMessage>> read_response_input(const Json& input, const std::string& instructions) {
  return InputReader(instructions).read(input);
}

}  // namespace tokamak::server
