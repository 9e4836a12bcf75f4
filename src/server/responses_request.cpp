#include "server/responses_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/chat_fields.h"
#include "server/json_access.h"
#include "server/responses_input.h"

namespace tokamak::server {

namespace {

// Nothing is stored, so nothing can be gone on with.
Result<void> check_stored(const Fields& fields) {
  for (const std::string_view name : {"previous_response_id", "conversation"})
    if (fields.has(name))
      return Error{.code = ErrorCode::not_found,
                   .what = "there is no such " + std::string(name == "conversation" ? name : "response"),
                   .where = std::string(name),
                   .hint = "answers are not stored: send the whole conversation as input"};
  return {};
}

// {"type": "function", "name", ...} in the form of chat requests, whose fields
// are in an object of their own.
Json nested(const Json& flat) {
  if (!flat.is_object() || flat.contains("function") || text_member(flat, "type") != "function") return flat;
  Json function = flat;
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}
Json nested_list(const Json& list) {
  Json out = Json::array();
  for (const Json& tool : list) out.push_back(nested(tool));
  return out;
}

Json nested_choice(const Json& choice) {
  if (text_member(choice, "type") != "allowed_tools") return nested(choice);
  Json allowed = choice;
  if (const Json* tools = member(choice, "tools"); tools && tools->is_array()) allowed["tools"] = nested_list(*tools);
  return {{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}};
}

Result<void> read_tool_fields(const Fields& fields, ChatTask& task) {
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  const Json list = tools ? nested_list(*tools) : Json::array();
  const Json wanted = choice ? nested_choice(*choice) : Json("auto");
  return read_tool_use(list, wanted, fields.flag("parallel_tool_calls", true), task);
}

Result<void> read_text(const Fields& fields, const ServerContext& context, ChatTask& task) {
  const Json* text = fields.find("text");
  const Json* format = text ? member(*text, "format") : nullptr;
  if (!format) return {};
  auto grammar = TRY(read_format(*format, "text.format", fields.flag("compact_json", false), context.grammar));
  if (!grammar) return {};
  if (task.output.grammar)
    return bad_field("text.format", "give only one of text.format, json_schema, grammar and regex");
  task.output.grammar = std::move(grammar);
  return {};
}

Result<void> read_reasoning(const Fields& fields, ChatTask& task) {
  const Json* reasoning = fields.find("reasoning");
  const Json* effort = reasoning ? member(*reasoning, "effort") : nullptr;
  if (!effort) return {};
  if (!effort->is_string()) return bad_field("reasoning.effort", "must be text");
  set_reasoning_effort(task.chat.template_kwargs, effort->get<std::string>());
  return {};
}

bool wants_logprobs(const Fields& fields) {
  const Json* include = fields.find("include");
  if (fields.integer("top_logprobs", 0) > 0) return true;
  return include && std::ranges::find(*include, Json("message.output_text.logprobs")) != include->end();
}

// Only functions, with all keys that strict clients look for.
Json shown_tools(const Fields& fields) {
  Json out = Json::array();
  const Json* tools = fields.find("tools");
  if (!tools) return out;
  for (const Json& tool : *tools) {
    if (text_member(tool, "type") != "function") continue;
    Json shown = tool;
    if (const Json* function = member(tool, "function")) {
      shown = *function;
      shown["type"] = "function";
    }
    for (const std::string_view key : {"description", "parameters", "strict"})
      if (!shown.contains(key)) shown[std::string(key)] = nullptr;
    out.push_back(std::move(shown));
  }
  return out;
}

Json shown_text(const Fields& fields) {
  Json text = {{"format", {{"type", "text"}}}};
  if (const Json* given = fields.find("text"))
    for (const auto& [key, value] : given->items()) text[key] = value;
  return text;
}

Json shown(const Fields& fields, std::string_view name, Json fallback = nullptr) {
  const Json* value = fields.find(name);
  return value ? *value : std::move(fallback);
}

Json make_head(const Fields& fields, const ChatTask& task, const ServerContext& context) {
  const Json* reasoning = fields.find("reasoning");
  const auto of_reasoning = [&](std::string_view name) {
    const Json* value = reasoning ? member(*reasoning, name) : nullptr;
    return value ? *value : Json(nullptr);
  };
  Json head = {{"id", new_id("resp_")}, {"object", "response"}, {"created_at", unix_seconds()}};
  head["status"] = "in_progress";
  head["background"] = false;
  head["error"] = nullptr;
  head["incomplete_details"] = nullptr;
  for (const std::string_view name : {"instructions", "max_output_tokens", "user"})
    head[std::string(name)] = shown(fields, name);
  head["max_tool_calls"] = nullptr;
  head["metadata"] = shown(fields, "metadata", Json::object());
  head["model"] = fields.text("model", context.model_name);
  head["output"] = Json::array();
  head["parallel_tool_calls"] = task.tool_use.parallel;
  head["previous_response_id"] = nullptr;
  head["reasoning"] = {{"effort", of_reasoning("effort")}, {"summary", of_reasoning("summary")}};
  head["service_tier"] = "default";
  head["store"] = false;
  head["temperature"] = task.generation.sampling.temperature;
  head["text"] = shown_text(fields);
  head["tool_choice"] = shown(fields, "tool_choice", "auto");
  head["tools"] = shown_tools(fields);
  head["top_logprobs"] = task.generation.n_probs;
  head["top_p"] = task.generation.sampling.top_p;
  head["truncation"] = "disabled";
  head["usage"] = nullptr;
  return head;
}

}  // namespace

Result<ResponsesTask> read_responses(const Fields& fields, const ServerContext& context) {
  TRY(check_stored(fields));
  ChatTask task = TRY(read_chat_task(fields, kResponses, context));
  const Json* input = fields.find("input");
  if (!input) return bad_field("input", "is missing");
  task.chat.messages = TRY(read_response_input(*input, fields.text("instructions", "")));
  TRY(read_tool_fields(fields, task));
  TRY(read_text(fields, context, task));
  TRY(read_reasoning(fields, task));
  task.generation.logprobs = wants_logprobs(fields);
  ResponsesTask out{.chat = std::move(task), .head = {}};
  out.head = make_head(fields, out.chat, context);
  out.stream = fields.flag("stream", false);
  out.timings = fields.flag("timings_per_token", false);
  out.logprobs = out.chat.generation.logprobs;
  if (!out.stream) out.chat.generation.return_progress = false;
  return out;
}

}  // namespace tokamak::server
