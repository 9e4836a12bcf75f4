// The table of endpoints and the functions behind it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/context.h"

namespace tokamak::server {

using Endpoint = void (*)(const std::shared_ptr<Exchange>& exchange, ServerContext& context);

struct EndpointRow {
  std::string_view method;
  std::string_view paths;  // separated by spaces; the first is the usual one; a last "{id}" is any word
  Endpoint run;
  bool is_public = false;  // needs no key
  bool is_work = true;     // reads a body or computes: runs on a worker thread
  std::string_view meaning;
};

std::span<const EndpointRow> endpoints();
std::string endpoints_markdown();

// Finds the endpoint, checks the key, runs it. On the socket thread.
void route(const std::shared_ptr<Exchange>& exchange, ServerContext& context, Workers& workers);

// n_vocab, n_ctx and the like: of /v1/models and /props.
Json model_meta(const ServerContext& context);

void chat_completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void chat_input_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void chat_control(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void responses(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void responses_input_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void messages(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void messages_count_tokens(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void native_completion(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void tokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void detokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void apply_template(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void health(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void models(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void embeddings(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void native_embedding(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void rerank(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void infill(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void set_props(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void lora_adapters(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void set_lora_adapters(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void slot_action(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void props(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void slots(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void metrics(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void web_page(const std::shared_ptr<Exchange>& exchange, ServerContext& context);

}  // namespace tokamak::server
