// A message of Anthropic's API as it grows, and the event of every growth.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/chat_task.h"

namespace tokamak::server {

// Blocks of thinking, text and tool_use follow each other as the deltas do: one
// is open at a time.
class MessageObject {
 public:
  // Without `with_events` no event is made.
  MessageObject(std::string model, bool with_events);

  // message_start and a ping: once. `timings`: the prompt's tokens as far as
  // they are known.
  void start(const RequestTimings& timings);
  // A further ping.
  void ping();
  void add(const ReplyDelta& delta);
  // Closes the open block and the message. `n_calls`: of the answer.
  void finish(const Finished& finished, int n_calls);

  bool is_started() const { return is_started_; }
  const Json& json() const { return json_; }
  // What has happened since the last call: the JSON of events, whose `type` is
  // their name.
  std::vector<Json> take_events() { return std::exchange(events_, {}); }

 private:
  void open(ReplyDelta::Kind kind, Json block);
  void close();
  void emit(Json event);
  size_t index() const { return json_["content"].size(); }

  Json json_;
  bool with_events_, is_started_ = false;
  // The open block; null: none.
  Json block_;
  ReplyDelta::Kind kind_{};
  std::string text_;
  std::vector<Json> events_;
};

}  // namespace tokamak::server
