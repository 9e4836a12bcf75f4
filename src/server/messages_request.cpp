#include "server/messages_request.h"

#include <fmt/format.h>

#include "server/chat_fields.h"
#include "server/json_access.h"
#include "server/messages_input.h"

namespace tokamak::server {

namespace {

// {"name", "description", "input_schema"} in the form of chat requests. Tools
// that Anthropic runs have a type of their own.
Result<Json> read_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return bad_field(where, "must be an object");
  const std::string type = tool.contains("type") && !tool["type"].is_null() ? text_member(tool, "type") : "custom";
  if (type != "custom") return Json{{"type", type}};
  Json function = {{"name", text_member(tool, "name")}};
  if (function["name"] == "") return bad_field(where + ".name", "must be text");
  if (const Json* description = member(tool, "description")) function["description"] = *description;
  const Json* schema = member(tool, "input_schema");
  if (!schema || !schema->is_object()) return bad_field(where + ".input_schema", "must be a JSON Schema: an object");
  function["parameters"] = *schema;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

Result<Json> read_choice(const Json& choice) {
  const std::string type = text_member(choice, "type");
  if (type == "auto" || type == "none") return Json(type);
  if (type == "any") return Json("required");
  if (type != "tool") return bad_field("tool_choice.type", "must be auto, any, tool or none");
  return Json{{"type", "function"}, {"function", {{"name", text_member(choice, "name")}}}};
}

Result<void> read_tool_fields(const Fields& fields, ChatTask& task) {
  Json tools = Json::array();
  if (const Json* list = fields.find("tools"))
    for (size_t i = 0; i < list->size(); ++i) tools.push_back(TRY(read_tool((*list)[i], fmt::format("tools[{}]", i))));
  const Json* choice = fields.find("tool_choice");
  const Json* alone = choice ? member(*choice, "disable_parallel_tool_use") : nullptr;
  return read_tool_use(tools, choice ? TRY(read_choice(*choice)) : Json("auto"), !(alone && *alone == true), task);
}

// Off, on, or (adaptive, absent) as the template does by itself.
Result<void> read_thinking(const Fields& fields, ChatTask& task) {
  const Json* thinking = fields.find("thinking");
  if (!thinking) return {};
  const std::string type = text_member(*thinking, "type");
  if (type == "adaptive") return {};
  if (type != "enabled" && type != "disabled")
    return bad_field("thinking.type", "must be enabled, disabled or adaptive");
  Json& kwargs = task.chat.template_kwargs;
  if (!kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = type == "enabled";
  const Json* budget = member(*thinking, "budget_tokens");
  if (type == "disabled" || !budget) return {};
  if (!budget->is_number_integer() || budget->get<int64_t>() < 0)
    return bad_field("thinking.budget_tokens", "must be a number of tokens");
  task.generation.reasoning_budget = budget->get<int64_t>();
  return {};
}

// output_config: {"effort", "format"}; output_format is the older name of the
// format.
Result<void> read_output(const Fields& fields, const ServerContext& context, ChatTask& task) {
  const Json* config = fields.find("output_config");
  if (config)
    if (const std::string effort = text_member(*config, "effort"); !effort.empty())
      set_reasoning_effort(task.chat.template_kwargs, effort);
  const Json* format = config ? member(*config, "format") : nullptr;
  const std::string_view where = format ? "output_config.format" : "output_format";
  if (!format) format = fields.find("output_format");
  if (!format) return {};
  auto grammar = TRY(read_format(*format, where, fields.flag("compact_json", false), context.grammar));
  if (!grammar) return {};
  if (task.output.grammar)
    return bad_field(where,
                     "give only one of output_config.format, "
                     "json_schema, grammar and regex");
  task.output.grammar = std::move(grammar);
  return {};
}

}  // namespace

Result<MessagesTask> read_messages(const Fields& fields, const ServerContext& context) {
  MessagesTask out{.chat = TRY(read_chat_task(fields, kMessages, context)), .model = {}};
  ChatRequest& chat = out.chat.chat;
  const Json* messages = fields.find("messages");
  if (!messages || messages->empty()) return bad_field("messages", messages ? "is empty" : "is missing");
  chat.messages = TRY(read_anthropic_messages(fields.find("system"), *messages));
  if (chat.messages.empty()) return bad_field("messages", "is empty");
  // A conversation that ends with the assistant's words is continued there.
  const ChatMessage& last = chat.messages.back();
  chat.continue_final_message = last.role == "assistant" && last.tool_calls.empty();
  chat.add_generation_prompt = !chat.continue_final_message;
  TRY(read_tool_fields(fields, out.chat));
  TRY(read_thinking(fields, out.chat));
  TRY(read_output(fields, context, out.chat));
  if (const Json* metadata = fields.find("metadata"))
    if (std::string user = text_member(*metadata, "user_id"); !user.empty())
      out.chat.generation.client = std::move(user);
  out.model = fields.text("model", context.model_name);
  out.stream = fields.flag("stream", false);
  out.timings = fields.flag("timings_per_token", false);
  if (!out.stream) out.chat.generation.return_progress = false;
  return out;
}

}  // namespace tokamak::server
