// A request of the Responses API: from its fields to a chat task.
#pragma once

#include "server/chat_task.h"

namespace tokamak::server {

struct ResponsesTask {
  ChatTask chat;
  Json head;  // the response object before anything is generated; repeats what
              // was asked
  bool stream = false, timings = false, logprobs = false;
};

// Errors name the field ("input[3].content[0]"); not_found: responses and
// conversations that would have to be stored.
Result<ResponsesTask> read_responses(const Fields& fields, const ServerContext& context);

}  // namespace tokamak::server
