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
  std::string_view paths;  // separated by spaces; the first is the usual one
  Endpoint run;
  bool is_public = false;  // needs no key
  bool is_work = true;     // reads a body or computes: runs on a worker thread
  std::string_view meaning;
};

std::span<const EndpointRow> endpoints();
std::string endpoints_markdown();

// Finds the endpoint, checks the key, runs it. On the socket thread.
void route(const std::shared_ptr<Exchange>& exchange, ServerContext& context, Workers& workers);

void chat_completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void native_completion(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void tokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void detokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void apply_template(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void health(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void models(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void props(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void slots(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void metrics(const std::shared_ptr<Exchange>& exchange, ServerContext& context);
void web_page(const std::shared_ptr<Exchange>& exchange, ServerContext& context);

}  // namespace tokamak::server
