#include "server/response_object.h"

namespace tokamak::server {

namespace {
Json part_json(bool is_message, std::string text, Json logprobs) {
  if (!is_message) return {{"type", "reasoning_text"}, {"text", std::move(text)}};
  return {{"type", "output_text"},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)},
          {"text", std::move(text)}};
}

Json usage(const RequestTimings& t, int64_t n_reasoning_tokens) {
  const int64_t n_input = t.n_prompt + t.n_cached;
  return {{"input_tokens", n_input},
          {"input_tokens_details", {{"cached_tokens", t.n_cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", t.n_generated},
          {"output_tokens_details", {{"reasoning_tokens", n_reasoning_tokens}}},
          {"total_tokens", n_input + t.n_generated}};
}

// The codes that the API has for responses.
std::string_view failure_code(const Error& error) {
  const int status = error_row(error.code).http_status;
  return status == 429 ? "rate_limit_exceeded" : status < 500 ? "invalid_prompt" : "server_error";
}
}  // namespace

void ResponseObject::emit(std::string_view type, Json data) {
  if (!with_events_) return;
  Json event = {{"type", type}, {"sequence_number", n_events_++}};
  event.update(data);
  events_.push_back({type, std::move(event)});
}

void ResponseObject::emit_response(std::string_view type) {
  if (with_events_) emit(type, {{"response", json_}});
}

void ResponseObject::start() {
  if (std::exchange(is_started_, true)) return;
  emit_response("response.created");
  emit_response("response.in_progress");
}

void ResponseObject::go_on() {
  if (!is_started_) return start();
  emit_response("response.in_progress");
}

Json ResponseObject::at_item(bool with_content_index) const {
  Json place = {{"item_id", item_.json["id"]}, {"output_index", json_["output"].size()}};
  if (with_content_index) place["content_index"] = 0;
  return place;
}

void ResponseObject::open(ItemKind kind, Json json) {
  close("completed");
  item_ = {.kind = kind, .json = std::move(json), .text = {}};
  if (with_events_)
    emit("response.output_item.added", {{"output_index", json_["output"].size()}, {"item", item_.json}});
  if (kind == ItemKind::call || !with_events_) return;
  Json added = at_item(true);
  added["part"] = part_json(kind == ItemKind::message, "", Json::array());
  emit("response.content_part.added", std::move(added));
}

void ResponseObject::open_reasoning() {
  open(ItemKind::reasoning, {{"id", new_id("rs_")},
                             {"type", "reasoning"},
                             {"status", "in_progress"},
                             {"summary", Json::array()},
                             {"content", Json::array()}});
}

void ResponseObject::open_message() {
  open(ItemKind::message, {{"id", new_id("msg_")},
                           {"type", "message"},
                           {"status", "in_progress"},
                           {"role", "assistant"},
                           {"content", Json::array()}});
}

void ResponseObject::add(const ReplyDelta& delta, const Json& logprobs) {
  start();
  using enum ReplyDelta::Kind;
  if (delta.kind == call) {
    open(ItemKind::call, {{"id", new_id("fc_")},
                          {"type", "function_call"},
                          {"status", "in_progress"},
                          {"call_id", delta.id.empty() ? new_id("call_") : delta.id},
                          {"name", delta.name},
                          {"arguments", ""}});
    return;
  }
  if (delta.kind == reasoning && item_.kind != ItemKind::reasoning) open_reasoning();
  if (delta.kind == content && item_.kind != ItemKind::message) open_message();
  item_.text += delta.text;
  if (delta.kind == content) item_.logprobs.insert(item_.logprobs.end(), logprobs.begin(), logprobs.end());
  if (!with_events_) return;
  Json event = at_item(delta.kind != arguments);
  event["delta"] = delta.text;
  if (delta.kind == content) event["logprobs"] = logprobs;
  emit(delta.kind == content     ? "response.output_text.delta"
       : delta.kind == reasoning ? "response.reasoning_text.delta"
                                 : "response.function_call_arguments.delta",
       std::move(event));
}

Json ResponseObject::close_part(std::string_view done_event) {
  const bool is_message = item_.kind == ItemKind::message;
  Json part = part_json(is_message, item_.text, item_.logprobs);
  if (!with_events_) return part;
  Json done = at_item(true);
  done["text"] = item_.text;
  if (is_message) done["logprobs"] = item_.logprobs;
  emit(done_event, std::move(done));
  Json part_done = at_item(true);
  part_done["part"] = part;
  emit("response.content_part.done", std::move(part_done));
  return part;
}

void ResponseObject::close(std::string_view status) {
  switch (item_.kind) {
    case ItemKind::none:
      return;
    case ItemKind::reasoning:
      item_.json["content"] = Json::array({close_part("response.reasoning_text.done")});
      break;
    case ItemKind::message:
      item_.json["content"] = Json::array({close_part("response.output_text.done")});
      break;
    case ItemKind::call: {
      item_.json["arguments"] = item_.text;
      Json done = at_item(false);
      done["name"] = item_.json["name"];
      done["arguments"] = item_.text;
      emit("response.function_call_arguments.done", std::move(done));
      break;
    }
  }
  item_.json["status"] = status;
  if (with_events_) emit("response.output_item.done", {{"output_index", json_["output"].size()}, {"item", item_.json}});
  json_["output"].push_back(std::move(item_.json));
  item_ = {};
}

void ResponseObject::finish(const Finished& finished, int64_t n_reasoning_tokens) {
  start();
  const bool is_complete = openai_finish_reason(finished.reason) == "stop";
  const std::string_view status = is_complete ? "completed" : "incomplete";
  if (item_.kind == ItemKind::none && json_["output"].empty()) open_message();  // clients read the text of a message
  close(status);
  json_["status"] = status;
  if (is_complete)
    json_["completed_at"] = unix_seconds();
  else
    json_["incomplete_details"] = {{"reason", "max_output_tokens"}};  // of the API's reasons, the one for all limits
  json_["usage"] = usage(finished.timings, n_reasoning_tokens);
  emit_response(is_complete ? "response.completed" : "response.incomplete");
}

void ResponseObject::fail(const Error& error) {
  start();
  close("incomplete");
  json_["status"] = "failed";
  json_["error"] = {{"code", failure_code(error)}, {"message", error.message()}};
  emit_response("response.failed");
}

}  // namespace tokamak::server
