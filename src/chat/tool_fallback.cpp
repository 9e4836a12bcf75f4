#include "chat/tool_fallback.h"

#include "base/check.h"

namespace tokamak {

namespace {
constexpr std::string_view kTemplate = R"({%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content if message.content else '' }}
{%- for call in message.tool_calls or [] -%}
{{ '\n' if loop.index0 or message.content else '' }}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%})";

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_of(const Content& content) {
  if (const auto* text = std::get_if<std::string>(&content)) return *text;
  std::string out;
  if (const auto* parts = std::get_if<std::vector<Json>>(&content)) {
    for (const Json& part : *parts) {
      if (part.value("type", "") != "text") continue;
      if (!out.empty()) out += '\n';
      out += part.value("text", "");
    }
  }
  return out;
}

std::string describe(const std::vector<Json>& tools) {
  std::string out = "You can call functions. They are, one JSON object a line:\n";
  for (const Json& tool : tools) out += dump(tool.contains("function") ? tool["function"] : tool) + '\n';
  out +=
      "To call one, answer with its name and its arguments in this form, once for each call:\n"
      "<tool_call>\n{\"name\": \"the name\", \"arguments\": {\"the argument\": \"its value\"}}\n</tool_call>\n"
      "The results come between <tool_response> and </tool_response>.";
  return out;
}

Result<std::string> call_text(const ToolCall& call, const std::string& where) {
  Json arguments = call.arguments;
  if (arguments.is_string()) {
    const auto text = arguments.get<std::string>();
    arguments = text.find_first_not_of(" \n\r\t") == text.npos ? Json() : TRY(parse_json(text, where + ".arguments"));
  }
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object())
    return Error{
        .code = ErrorCode::bad_argument, .what = "tool call arguments must hold a JSON object", .where = where};
  return "<tool_call>\n{\"name\": " + dump(call.name) + ", \"arguments\": " + dump(arguments) + "}\n</tool_call>";
}

void add_paragraph(std::string& text, const std::string& more, std::string_view between) {
  if (!text.empty() && !more.empty()) text += between;
  text += more;
}

// A result becomes part of the user's message that follows the assistant's.
void append_result(std::vector<ChatMessage>& messages, bool& is_open, const ChatMessage& result) {
  const std::string text = "<tool_response>\n" + text_of(result.content) + "\n</tool_response>";
  if (!is_open) messages.push_back({.role = "user", .content = std::string()});
  is_open = true;
  add_paragraph(std::get<std::string>(messages.back().content), text, "\n");
}
}  // namespace

Result<ChatRequest> describe_tools(ChatRequest request) {
  std::vector<ChatMessage> messages;
  bool results_open = false;
  for (ChatMessage& message : request.messages) {
    if (message.role == "tool" || message.role == "function") {
      append_result(messages, results_open, message);
      continue;
    }
    results_open = false;
    if (!message.tool_calls.empty()) {
      std::string text = text_of(message.content);
      for (const ToolCall& call : message.tool_calls) {
        const std::string made =
            TRY(call_text(call, "messages[" + std::to_string(&message - request.messages.data()) + "]"));
        add_paragraph(text, made, "\n");
      }
      message.content = std::move(text);
      message.tool_calls.clear();
    }
    messages.push_back(std::move(message));
  }
  if (!request.tools.empty()) {
    if (messages.empty() || messages[0].role != "system")
      messages.insert(messages.begin(), ChatMessage{.role = "system", .content = std::string()});
    std::string text = text_of(messages[0].content);
    add_paragraph(text, describe(request.tools), "\n\n");
    messages[0].content = std::move(text);
  }
  request.messages = std::move(messages);
  request.tools.clear();
  return request;
}

const ChatTemplate& tool_fallback_template() {
  static const ChatTemplate chat_template = [] {
    auto parsed = ChatTemplate::parse(std::string(kTemplate), "", "<|im_end|>");
    CHECK(parsed.has_value(), "the fallback template is one of ours");
    return std::move(*parsed);
  }();
  return chat_template;
}

}  // namespace tokamak
