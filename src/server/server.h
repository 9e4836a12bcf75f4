// A model behind HTTP: sockets, workers and the engine's service put together.
#pragma once

#include <memory>

#include "server/context.h"

namespace tokamak::server {

class Server {
 public:
  // Takes the session over and listens. Errors: those of Service::create and HttpServer::start.
  static Result<std::unique_ptr<Server>> start(std::unique_ptr<Session> session, Result<ChatTemplate> chat_template,
                                               const ServiceOptions& service, ServerOptions options);
  ~Server();
  uint16_t port() const { return http_->port(); }
  // From now on these; empty: everybody may. Thread-safe.
  void set_api_keys(std::vector<std::string> keys) { context_->access.set_keys(std::move(keys)); }
  const Service& service() const { return *service_; }

  // Takes no new connections and requests, waits for the running ones, at most `timeout_seconds`, then ends all. True
  // if nothing was cut off.
  bool shut_down(double timeout_seconds);
  // Ends the running requests now, also while shut_down() waits for them. Thread-safe.
  void cut_off() { static_cast<void>(service_->drain(0)); }

 private:
  Server() = default;
  void wait_for_connections() const;

  // Destroyed in the opposite order: the service's sinks hold exchanges, which wake the sockets' thread, and post work.
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Workers> workers_, file_workers_;
  std::unique_ptr<ServerContext> context_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<SlotStore> slot_store_;
  bool is_down_ = false;
};

}  // namespace tokamak::server
