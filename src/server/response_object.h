// The response object of the Responses API as it grows, and the event of every
// growth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/chat_task.h"

namespace tokamak::server {

// Reasoning, message and function_call items follow each other as the deltas
// do: one is open at a time. Sequence numbers count from 0; ids stay what they
// are from the first event to the last.
class ResponseObject {
 public:
  struct Event {
    std::string_view type;
    Json data;
  };

  // `head`: the object before anything is generated. Without `with_events` no
  // event is made.
  ResponseObject(Json head, bool with_events) : json_(std::move(head)), with_events_(with_events) {}

  // response.created and the first response.in_progress: once, whoever asks
  // first.
  void start();
  // start(), or a further response.in_progress.
  void go_on();
  // `logprobs`: of the tokens behind the delta; shown for the texts of
  // messages.
  void add(const ReplyDelta& delta, const Json& logprobs = Json::array());
  // Closes the open item and the object; response.completed or
  // response.incomplete.
  void finish(const Finished& finished, int64_t n_reasoning_tokens);
  // response.failed.
  void fail(const Error& error);

  bool is_started() const { return is_started_; }
  const Json& json() const { return json_; }
  // What has happened since the last call.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

 private:
  enum class ItemKind : uint8_t { none, reasoning, message, call };
  // The item that grows.
  struct Item {
    ItemKind kind = ItemKind::none;
    Json json;  // as output_item.added shows it
    std::string text;
    Json logprobs = Json::array();
  };

  void open(ItemKind kind, Json json);
  void open_reasoning();
  void open_message();
  void close(std::string_view status);
  // Closes the part of a reasoning item or a message; returns it.
  Json close_part(std::string_view done_event);
  // An event with the place of the open item.
  Json at_item(bool with_content_index) const;
  void emit(std::string_view type, Json data);
  void emit_response(std::string_view type);

  Json json_;
  bool with_events_, is_started_ = false;
  Item item_;
  std::vector<Event> events_;
  int64_t n_events_ = 0;
};

}  // namespace tokamak::server
