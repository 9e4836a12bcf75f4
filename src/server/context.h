// What all endpoints share.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "chat/chat_template.h"
#include "chat/reply_format.h"
#include "engine/service.h"
#include "engine/slots.h"
#include "server/access.h"
#include "server/exchange_filters.h"
#include "server/fields.h"
#include "server/http.h"
#include "server/running_answers.h"
#include "server/structured.h"

namespace tokamak::server {

struct ServerOptions {
  HttpOptions http;
  std::string alias;                           // the model's name in answers; empty: its own
  std::vector<std::string> api_keys;           // empty: everybody may
  std::string cors_origin;                     // Access-Control-Allow-Origin; empty: none
  RequestLog log;                              // called once for each request that did work or failed; may be empty
  bool log_bodies = false;                     // with what the client sent
  SamplerParams sampling;                      // of requests that say nothing
  int64_t n_predict = -1;                      // the same
  std::string pooling = "auto";                // of embeddings, where the request says nothing
  std::filesystem::path slot_folder;           // for files of /slots; empty: none
  bool web_page = true;                        // served at /
  std::string reasoning_start, reasoning_end;  // tags of thoughts; empty: those of the template
};

// Threads for work that must not hold up the sockets: JSON, templates, tokens.
class Workers {
 public:
  explicit Workers(int n_threads);
  ~Workers();
  void post(std::function<void()> work);  // ignored after stop()
  void stop();                            // finishes what is queued

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

struct ServerContext {
  ServerOptions options;
  Service& service;
  Workers& workers;
  Access access;
  Workers& file_workers;  // one thread, for files of slots
  SlotStore& slot_store;
  const Model& model;
  Result<ChatTemplate> chat_template;  // an error is what chat requests get
  std::string model_name;
  int64_t created = 0;     // seconds since 1970, of the start
  int64_t n_parallel = 0;  // requests that run at once
  GrammarTools grammar;
  ReplyFormat reply_format;           // of the template, or the common form when it knows no tools
  std::vector<int32_t> reply_tokens;  // control tokens that belong to it, sorted
  std::unique_ptr<RunningAnswers> running = std::make_unique<RunningAnswers>();

  const Tokenizer& tokenizer() const { return model.tokenizer(); }
};

// "chatcmpl-" and 24 random letters.
std::string new_id(std::string_view prefix);
int64_t unix_seconds();
// A client's words as the value of a header: printable ASCII, cut at 2000 bytes.
std::string header_text(std::string text);

}  // namespace tokamak::server
