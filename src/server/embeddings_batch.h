// Many inputs embedded as one piece of work: /v1/embeddings and /v1/rerank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/context.h"

namespace tokamak::server {

struct EmbeddingInputs {
  std::vector<std::vector<int32_t>> tokens;  // one list per input, none empty
  EmbeddingMode mode = EmbeddingMode::mean;
  std::string client;
  std::vector<std::string> fields;  // of the request, one per input, for errors: "input[3]"
};

// One event per input, in the order of the inputs; or the first error. Called once, on a worker thread.
using EmbeddingsDone = std::function<void(Result<std::vector<EmbeddingEvent>> rows)>;

// Starts the work and returns. As many inputs as requests may run at once are handed to the service at a time, so a
// long list takes no more room in the queue than that, and waits for nobody once its first input is accepted. The
// first error, and a client that leaves, cancels the rest. Errors: those of Service::submit.
void embed(const std::shared_ptr<Exchange>& exchange, ServerContext& context, EmbeddingInputs inputs,
           EmbeddingsDone done);

}  // namespace tokamak::server
