#include "server/message_object.h"

namespace tokamak::server {

namespace {
using Kind = ReplyDelta::Kind;

Json usage(const RequestTimings& t) {
  return {{"input_tokens", t.n_prompt},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", t.n_cached},
          {"output_tokens", t.n_generated}};
}

std::string_view stop_reason(FinishReason reason, int n_calls) {
  switch (reason) {
    case FinishReason::stop_string:
      return "stop_sequence";
    case FinishReason::end_of_text:
      return n_calls > 0 ? "tool_use" : "end_turn";
    case FinishReason::context_full:
      return "model_context_window_exceeded";
    case FinishReason::length:
    case FinishReason::time_limit:
    case FinishReason::cancelled:
      break;
  }
  return "max_tokens";
}

// An object always. Arguments that were cut off are no JSON: they are handed on
// as text.
Json call_input(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  auto parsed = parse_json(arguments, "arguments");
  if (parsed && parsed->is_object()) return std::move(*parsed);
  return {{"unfinished_arguments", arguments}};
}

Json delta_json(Kind kind, const std::string& text) {
  if (kind == Kind::reasoning) return {{"type", "thinking_delta"}, {"thinking", text}};
  if (kind == Kind::content) return {{"type", "text_delta"}, {"text", text}};
  return {{"type", "input_json_delta"}, {"partial_json", text}};
}
}  // namespace

MessageObject::MessageObject(std::string model, bool with_events)
    : json_({{"id", new_id("msg_")},
             {"type", "message"},
             {"role", "assistant"},
             {"model", std::move(model)},
             {"content", Json::array()},
             {"stop_reason", nullptr},
             {"stop_sequence", nullptr},
             {"usage", usage({})}}),
      with_events_(with_events) {}

void MessageObject::emit(Json event) {
  if (with_events_) events_.push_back(std::move(event));
}

void MessageObject::start(const RequestTimings& timings) {
  if (std::exchange(is_started_, true)) return;
  json_["usage"] = usage(timings);
  emit({{"type", "message_start"}, {"message", json_}});
  ping();
}

void MessageObject::ping() { emit({{"type", "ping"}}); }

void MessageObject::open(Kind kind, Json block) {
  close();
  kind_ = kind;
  block_ = std::move(block);
  emit({{"type", "content_block_start"}, {"index", index()}, {"content_block", block_}});
}

void MessageObject::add(const ReplyDelta& delta) {
  if (delta.kind == Kind::call) {
    return open(Kind::arguments, {{"type", "tool_use"},
                                  {"id", delta.id.empty() ? new_id("toolu_") : delta.id},
                                  {"name", delta.name},
                                  {"input", Json::object()}});
  }
  if (block_.is_null() || kind_ != delta.kind) {
    if (delta.kind == Kind::reasoning) open(delta.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    if (delta.kind == Kind::content) open(delta.kind, {{"type", "text"}, {"text", ""}});
  }
  text_ += delta.text;
  emit({{"type", "content_block_delta"}, {"index", index()}, {"delta", delta_json(delta.kind, delta.text)}});
}

void MessageObject::close() {
  if (block_.is_null()) return;
  if (kind_ == Kind::reasoning) {
    emit({{"type", "content_block_delta"},
          {"index", index()},
          {"delta", {{"type", "signature_delta"}, {"signature", ""}}}});
    block_["thinking"] = std::move(text_);
  } else if (kind_ == Kind::content) {
    block_["text"] = std::move(text_);
  } else {
    block_["input"] = call_input(text_);
  }
  emit({{"type", "content_block_stop"}, {"index", index()}});
  json_["content"].push_back(std::exchange(block_, nullptr));
  text_.clear();
}

void MessageObject::finish(const Finished& finished, int n_calls) {
  start(finished.timings);
  close();
  json_["stop_reason"] = stop_reason(finished.reason, n_calls);
  if (finished.matched_stop) json_["stop_sequence"] = *finished.matched_stop;
  json_["usage"] = usage(finished.timings);
  emit({{"type", "message_delta"},
        {"delta", {{"stop_reason", json_["stop_reason"]}, {"stop_sequence", json_["stop_sequence"]}}},
        {"usage", json_["usage"]}});
  emit({{"type", "message_stop"}});
}

}  // namespace tokamak::server
