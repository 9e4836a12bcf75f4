// A server over a tiny model in this process, and what its answers hold.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/chat_model_helpers.h"
#include "engine/wrapped_backend.h"
#include "http_client_helpers.h"
#include "server/server.h"

namespace tokamak::test {

// Chats with thoughts (enable_thinking opens one) and with tool calls in tags.
extern const std::string_view kThinkingTemplate;

class ModelServer {
 public:
  explicit ModelServer(const ChatModel& model = {.chat_template = std::string(kThinkingTemplate)}, int64_t n_ctx = 1024,
                       server::ServerOptions options = {}, ServiceOptions service = {.n_parallel = 4},
                       DeviceScript* script = nullptr);
  uint16_t port() const { return server_->port(); }
  server::Server& server() { return *server_; }
  // Names of fields and values as a client writes them.
  Reply post(std::string_view path, const nlohmann::ordered_json& body, std::string_view headers = {}) const;
  // The answer of a request that must succeed.
  nlohmann::ordered_json ask(std::string_view path, const nlohmann::ordered_json& body) const;
  // Its error: {"message", ...}. Expects the status.
  nlohmann::ordered_json refusal(std::string_view path, const nlohmann::ordered_json& body, int status = 400) const;

 private:
  std::unique_ptr<server::Server> server_;
};

struct StreamEvent {
  std::string name;  // of the "event:" line; empty: none
  nlohmann::ordered_json data;
};
// The events of a stream, without comments and [DONE].
std::vector<StreamEvent> stream_events(const Reply& reply);

}  // namespace tokamak::test
