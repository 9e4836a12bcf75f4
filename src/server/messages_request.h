// A request of Anthropic's Messages API: from its fields to a chat task.
#pragma once

#include "server/chat_task.h"

namespace tokamak::server {

struct MessagesTask {
  ChatTask chat;
  std::string model;
  bool stream = false, timings = false;
};

// All but max_tokens, which only a request that runs must have. Errors name the
// field ("messages[2].content[0]").
Result<MessagesTask> read_messages(const Fields& fields, const ServerContext& context);

}  // namespace tokamak::server
