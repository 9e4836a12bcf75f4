#include "chat/chat_template.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/unicode.h"

namespace tokamak {

namespace {
using jinja::Dict;
using jinja::List;
using jinja::Value;
using EmptyContent = TemplateAbilities::EmptyContent;

Error bad_request(std::string what, std::string where) {
  return Error{.code = ErrorCode::bad_argument, .what = std::move(what), .where = std::move(where), .hint = {}};
}

Value text_value(const std::string& text) {
  return is_valid_utf8(text) ? Value(text) : Value(replace_invalid_utf8(text));
}

Result<Value> to_value(const Json& json, const std::string& where, int depth = 0) {
  if (depth > kMaxJsonDepth) return bad_request("nested too deeply", where);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        return bad_request("integer does not fit into 64 bits", where);
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return text_value(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      List items;
      for (const Json& item : json) items.push_back(TRY(to_value(item, where, depth + 1)));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) dict.set(text_value(key), TRY(to_value(value, where, depth + 1)));
      return Value::dict(std::move(dict));
    }
    default:
      return Value::none();
  }
}

Result<Value> array_value(const std::vector<Json>& array, const std::string& where) {
  if (array.empty()) return Value::none();  // transformers passes None, too
  List items;
  for (const Json& item : array) items.push_back(TRY(to_value(item, where)));
  return Value::list(std::move(items));
}

bool is_empty(const Content& content) {
  if (const auto* text = std::get_if<std::string>(&content)) return text->empty();
  if (const auto* parts = std::get_if<std::vector<Json>>(&content)) return parts->empty();
  return true;
}

// The text parts, joined by newlines.
Result<std::string> joined_text(const std::vector<Json>& parts, const std::string& where) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].value("type", "") != "text")
      return bad_request(
          "this chat template takes text only, not a content part of type '" + parts[i].value("type", "") + "'", where);
    if (i > 0) out += '\n';
    out += parts[i].value("text", "");
  }
  return out;
}

// Arguments arrive as an object or as text that holds one; empty text means no arguments.
Result<Json> arguments_object(const ToolCall& call, const std::string& where) {
  if (call.arguments.is_object()) return call.arguments;
  if (call.arguments.is_null()) return Json::object();
  if (!call.arguments.is_string()) return bad_request("tool call arguments must be an object or a string", where);
  const auto& text = call.arguments.get_ref<const std::string&>();
  if (jinja::strip(text, jinja::Side::both).empty()) return Json::object();
  Json parsed = TRY(parse_json(text, where + ".arguments"));
  if (parsed.is_null()) return Json::object();
  if (!parsed.is_object()) return bad_request("tool call arguments must hold a JSON object", where);
  return parsed;
}

class MessageBuilder {
 public:
  MessageBuilder(const ChatMessage& message, size_t index, const TemplateAbilities& abilities)
      : message_(message), where_("messages[" + std::to_string(index) + "]"), abilities_(abilities) {}

  Result<Value> build() {
    set("role", text_value(message_.role));
    TRY(set_content());
    if (message_.reasoning_content) {
      set("reasoning_content", text_value(*message_.reasoning_content));
      if (!message_.extra.contains("thinking")) set("thinking", text_value(*message_.reasoning_content));
    }
    if (message_.name) set("name", text_value(*message_.name));
    if (!message_.tool_calls.empty()) TRY(set_tool_calls());
    if (message_.tool_call_id) set("tool_call_id", text_value(*message_.tool_call_id));
    for (const auto& [key, value] : message_.extra.items()) out_.set(text_value(key), TRY(to_value(value, where_)));
    return Value::dict(std::move(out_));
  }

 private:
  void set(std::string_view key, Value value) { out_.set(Value(key), std::move(value)); }

  Result<void> set_content() {
    if (is_empty(message_.content)) {
      const bool has_calls = !message_.tool_calls.empty();
      const EmptyContent form = has_calls ? abilities_.empty_content : EmptyContent::text;
      if (form != EmptyContent::absent) set("content", form == EmptyContent::text ? Value("") : Value::none());
      return {};
    }
    if (const auto* text = std::get_if<std::string>(&message_.content)) {
      set("content", text_value(*text));
      return {};
    }
    const auto& parts = std::get<std::vector<Json>>(message_.content);
    if (!abilities_.takes_parts || message_.role == "tool") {
      set("content", text_value(TRY(joined_text(parts, where_))));
      return {};
    }
    set("content", TRY(array_value(parts, where_)));
    return {};
  }

  Result<void> set_tool_calls() {
    List calls;
    for (size_t i = 0; i < message_.tool_calls.size(); ++i) {
      const ToolCall& call = message_.tool_calls[i];
      const std::string where = where_ + ".tool_calls[" + std::to_string(i) + "]";
      const Json arguments = TRY(arguments_object(call, where));
      Dict function;
      function.set(Value("name"), text_value(call.name));
      function.set(Value("arguments"), abilities_.arguments_as_text
                                           ? Value(arguments.dump(-1, ' ', false, Json::error_handler_t::replace))
                                           : TRY(to_value(arguments, where)));
      Dict item;
      if (!call.id.empty()) item.set(Value("id"), text_value(call.id));
      item.set(Value("type"), Value("function"));
      item.set(Value("function"), Value::dict(std::move(function)));
      for (const auto& [key, value] : call.extra.items()) item.set(text_value(key), TRY(to_value(value, where)));
      calls.push_back(Value::dict(std::move(item)));
    }
    set("tool_calls", Value::list(std::move(calls)));
    return {};
  }

  const ChatMessage& message_;
  const std::string where_;
  const TemplateAbilities& abilities_;
  Dict out_;
};

// The prompt up to the end of the last message's text.
Result<std::string> cut_after_final_message(std::string prompt, const ChatMessage& last) {
  std::string text;
  if (const auto* plain = std::get_if<std::string>(&last.content)) text = *plain;
  if (const auto* parts = std::get_if<std::vector<Json>>(&last.content))
    for (const Json& part : *parts)
      if (part.value("type", "") == "text") text = part.value("text", "");
  const std::string_view core = jinja::strip(text, jinja::Side::both);
  const size_t at = core.empty() ? std::string::npos : prompt.rfind(core);
  if (at == std::string::npos)
    return bad_request("the final message does not appear in the prompt, so it cannot be continued",
                       "continue_final_message");
  // The template may have trimmed the text.
  const std::string_view tail = jinja::strip(text, jinja::Side::left);
  const bool kept_end = std::string_view(prompt).substr(at).starts_with(tail);
  prompt.resize(at + (kept_end ? tail.size() : core.size()));
  return prompt;
}
}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source, std::string bos_token, std::string eos_token) {
  ChatTemplate result;
  result.template_ = TRY(jinja::Template::parse(source));
  result.source_ = std::move(source);
  result.bos_token_ = std::move(bos_token);
  result.eos_token_ = std::move(eos_token);
  result.probe();
  return result;
}

Result<std::string> ChatTemplate::render(const ChatRequest& request) const {
  return render_with(request, abilities_, {});
}

Result<std::string> ChatTemplate::render_with(const ChatRequest& request, const TemplateAbilities& abilities,
                                              const jinja::RenderLimits& limits) const {
  List messages;
  for (size_t i = 0; i < request.messages.size(); ++i)
    messages.push_back(TRY(MessageBuilder(request.messages[i], i, abilities).build()));
  if (request.continue_final_message && (request.messages.empty() || request.add_generation_prompt))
    return bad_request("needs a message to continue and add_generation_prompt = false", "continue_final_message");
  jinja::Variables variables;
  variables.emplace_back("messages", Value::list(std::move(messages)));
  variables.emplace_back("tools", TRY(array_value(request.tools, "tools")));
  variables.emplace_back("documents", TRY(array_value(request.documents, "documents")));
  variables.emplace_back("add_generation_prompt", Value(request.add_generation_prompt));
  variables.emplace_back("bos_token", text_value(bos_token_));
  variables.emplace_back("eos_token", text_value(eos_token_));
  for (const auto& [key, value] : request.template_kwargs.items()) {
    const Value converted = TRY(to_value(value, "chat_template_kwargs." + key));
    const auto present =
        std::find_if(variables.begin(), variables.end(), [&name = key](const auto& v) { return v.first == name; });
    if (present != variables.end())
      present->second = converted;
    else
      variables.emplace_back(key, converted);
  }
  std::string prompt = TRY(template_.render(std::move(variables), limits, clock_));
  if (request.continue_final_message) return cut_after_final_message(std::move(prompt), request.messages.back());
  return prompt;
}

void ChatTemplate::probe() {
  static constexpr std::string_view kMark = "zqprobe";
  static constexpr jinja::RenderLimits kProbeLimits{
      .max_output_bytes = 1 << 20, .max_value_bytes = 4 << 20, .max_steps = 50'000};
  const auto shows = [this](const ChatRequest& request, const TemplateAbilities& abilities) {
    const auto prompt = render_with(request, abilities, kProbeLimits);
    return prompt && prompt->find(kMark) != std::string::npos && prompt->find("None") == std::string::npos &&
           prompt->find("'text'") == std::string::npos;
  };
  ChatRequest request;
  request.messages = {{.role = "user", .content = std::vector<Json>{{{"type", "text"}, {"text", kMark}}}}};
  TemplateAbilities with_parts = abilities_;
  with_parts.takes_parts = true;
  abilities_.takes_parts = shows(request, with_parts);

  request.messages = {{.role = "user", .content = "a"}};
  request.tools = {{{"type", "function"},
                    {"function",
                     {{"name", kMark},
                      {"description", "d"},
                      {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}}};
  abilities_.shows_tools = shows(request, abilities_);

  ChatMessage assistant{.role = "assistant"};
  assistant.tool_calls = {{.id = "abcdefgh9", .name = std::string(kMark), .arguments = {{"k", "v"}}}};
  ChatMessage result{.role = "tool", .content = "r"};
  result.tool_call_id = "abcdefgh9";
  result.name = "t";
  request.tools.clear();
  request.messages = {{.role = "user", .content = "a"}, assistant, result};
  for (const bool as_text : {false, true})
    for (const EmptyContent form : {EmptyContent::text, EmptyContent::null, EmptyContent::absent}) {
      if (abilities_.shows_tool_calls) break;
      TemplateAbilities tried = abilities_;
      tried.arguments_as_text = as_text;
      tried.empty_content = form;
      if (!shows(request, tried)) continue;
      abilities_ = tried;
      abilities_.shows_tool_calls = true;
    }
}

}  // namespace tokamak
