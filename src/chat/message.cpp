#include "chat/message.h"

#include "base/utf8.h"

namespace tokamak {

namespace {
Error bad_field(std::string_view where, std::string what) {
  return Error{.code = ErrorCode::bad_argument, .what = std::move(what), .where = std::string(where), .hint = {}};
}

Result<std::optional<std::string>> optional_text(const Json& json, std::string_view key, std::string_view where) {
  const auto field = json.find(key);
  if (field == json.end() || field->is_null()) return std::optional<std::string>();
  if (!field->is_string()) return bad_field(where, "field '" + std::string(key) + "' must be a string");
  return std::optional<std::string>(field->get<std::string>());
}

Result<Content> parse_content(const Json& json, std::string_view where) {
  const auto field = json.find("content");
  if (field == json.end() || field->is_null()) return Content();
  if (field->is_string()) return Content(field->get<std::string>());
  if (!field->is_array()) return bad_field(where, "field 'content' must be a string, an array of parts or null");
  std::vector<Json> parts;
  for (const Json& part : *field) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text";
    if (!part.is_string() && !(part.is_object() && part.contains("type") && part["type"].is_string()))
      return bad_field(where, "each part of 'content' must be a string or an object with a string 'type'");
    if (is_text && !(part.contains("text") && part["text"].is_string()))
      return bad_field(where, "a content part of type 'text' must have a string 'text'");
    parts.push_back(part.is_string() ? Json{{"type", "text"}, {"text", part}} : part);
  }
  return Content(std::move(parts));
}

Result<ToolCall> parse_tool_call(const Json& json, const std::string& where) {
  if (!json.is_object()) return bad_field(where, "a tool call must be an object");
  ToolCall call;
  if (auto id = TRY(optional_text(json, "id", where))) call.id = std::move(*id);
  // Some clients send the function's fields without the wrapper.
  const bool wrapped = json.contains("function");
  const Json& function = wrapped ? json["function"] : json;
  if (!function.is_object()) return bad_field(where, "field 'function' must be an object");
  auto name = TRY(optional_text(function, "name", where));
  if (!name) return bad_field(where, "field 'name' is missing");
  call.name = std::move(*name);
  const auto arguments = function.find("arguments");
  call.arguments = arguments == function.end() || arguments->is_null() ? Json::object() : *arguments;
  for (const auto& [key, value] : json.items())
    if (key != "id" && key != "type" && key != "function" && (wrapped || (key != "name" && key != "arguments")))
      call.extra[key] = value;
  return call;
}

bool is_typed_field(std::string_view key) {
  for (const std::string_view typed :
       {"role", "content", "reasoning_content", "thinking", "reasoning", "tool_calls", "name", "tool_call_id"})
    if (key == typed) return true;
  return false;
}

// Builds the value while the text is read, and stops at the first limit. (The library's own parser with a callback
// looks through all elements of an array at the end of each object in it.)
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // not in text
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool key(std::string& name) override {
    Json& object = *open_.back();
    n_comparisons_ += object.size();
    if (n_comparisons_ > kMaxJsonComparisons) return refuse("objects with too many names");
    member_ = &object[std::move(name)];
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    return refuse(std::string("not valid JSON: ") + error.what());
  }

  Json take() { return std::move(root_); }
  const std::string& reason() const { return reason_; }

 private:
  bool add(Json value) { return place(std::move(value)), true; }
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool open(Json container) {
    if (open_.size() == size_t{kMaxJsonDepth})
      return refuse("JSON is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  Json root_;
  std::vector<Json*> open_;  // from the outermost to the innermost; nothing is added to the others meanwhile
  Json* member_ = nullptr;   // what comes next in the innermost one, an object
  uint64_t n_comparisons_ = 0;
  std::string reason_;
};
}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
  JsonBuilder builder;
  if (!Json::sax_parse(text, &builder)) return bad_field(where, builder.reason());
  return builder.take();
}

Result<ChatMessage> parse_message(const Json& json, std::string_view where) {
  if (!json.is_object()) return bad_field(where, "a message must be an object");
  ChatMessage message;
  auto role = TRY(optional_text(json, "role", where));
  if (!role || role->empty()) return bad_field(where, "field 'role' is missing");
  message.role = std::move(*role);
  message.content = TRY(parse_content(json, where));
  for (const std::string_view key : {"reasoning_content", "thinking", "reasoning"})
    if (!message.reasoning_content) message.reasoning_content = TRY(optional_text(json, key, where));
  message.name = TRY(optional_text(json, "name", where));
  message.tool_call_id = TRY(optional_text(json, "tool_call_id", where));
  const auto calls = json.find("tool_calls");
  if (calls != json.end() && !calls->is_null()) {
    if (!calls->is_array()) return bad_field(where, "field 'tool_calls' must be an array");
    for (size_t i = 0; i < calls->size(); ++i)
      message.tool_calls.push_back(
          TRY(parse_tool_call((*calls)[i], std::string(where) + ".tool_calls[" + std::to_string(i) + "]")));
  }
  for (const auto& [key, value] : json.items())
    if (!is_typed_field(key) && !value.is_null()) message.extra[key] = value;
  return message;
}

Result<std::vector<ChatMessage>> parse_messages(const Json& json) {
  if (!json.is_array()) return bad_field("messages", "must be an array");
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < json.size(); ++i)
    messages.push_back(TRY(parse_message(json[i], "messages[" + std::to_string(i) + "]")));
  return messages;
}

}  // namespace tokamak
