// serve: a model behind HTTP, for many clients at once.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/conversation.h"
#include "cli/loading.h"
#include "server/server.h"

namespace tokamak::cli {

namespace {
constexpr double kDrainSeconds = 30;

Result<std::vector<std::string>> read_keys(const SettingValues& values) {
  std::vector<std::string> keys = values.list("--api-key");
  const std::string& path = values.text("--api-key-file");
  if (path.empty()) return keys;
  std::ifstream file(path);
  if (!file) return Error{.code = ErrorCode::not_found, .what = "cannot be read", .where = path};
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty()) keys.push_back(line);
  }
  if (keys.empty())
    return Error{.code = ErrorCode::bad_argument, .what = "holds no key", .where = path, .hint = "one key a line"};
  return keys;
}

Result<server::ServerOptions> server_options(const SettingValues& values) {
  server::ServerOptions options;
  options.http.host = values.text("--host");
  options.http.port = static_cast<uint16_t>(values.integer("--port"));
  options.http.tls_certificate = values.text("--ssl-cert-file");
  options.http.tls_key = values.text("--ssl-key-file");
  if (options.http.tls_certificate.empty() != options.http.tls_key.empty())
    return Error{.code = ErrorCode::bad_argument,
                 .what = "a certificate and its key go together",
                 .where = "--ssl-cert-file, --ssl-key-file"};
  options.alias = values.text("--alias");
  options.cors_origin = values.text("--cors-origin");
  options.api_keys = TRY(read_keys(values));
  options.sampling = TRY(sampler_params(values));
  options.n_predict = values.integer("--n-predict");
  options.pooling = values.text("--pooling");
  options.slot_folder = values.text("--slot-save-path");
  if (!options.slot_folder.empty() && !std::filesystem::is_directory(options.slot_folder))
    return Error{.code = ErrorCode::not_found,
                 .what = "is no folder",
                 .where = "--slot-save-path " + options.slot_folder.string(),
                 .hint = "create it first"};
  options.web_page = !values.flag("--no-web-page");
  return options;
}

// A model without a usable template still serves completions; chat requests get the reason.
Result<ChatTemplate> find_template(const SettingValues& values, const Model& model) {
  auto chosen = choose_template(values, model);
  if (!chosen) return std::move(chosen.error());
  if (*chosen) return std::move(**chosen);
  return Error{.code = ErrorCode::bad_template,
               .what = "the model has no chat template",
               .where = model.name(),
               .hint = "use /v1/completions, or start the server with --chat-template"};
}

}  // namespace

Result<int> serve_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  server::ServerOptions options = TRY(server_options(values));
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  Result<ChatTemplate> chat_template = find_template(values, *model);
  std::unique_ptr<Session> session = TRY(open_session(model, TRY(serving_session_options(values, *model)), values));
  const bool is_tls = !options.http.tls_certificate.empty();
  const std::string host = options.http.host;
  catch_interrupts(true);
  const auto server = TRY(
      server::Server::start(std::move(session), std::move(chat_template), service_options(values), std::move(options)));
  talk_line(fmt::format("tokamak: {} answers at {}://{}:{} ({} tokens of context; Ctrl-C ends)", model->name(),
                        is_tls ? "https" : "http", host, server->port(), server->service().n_ctx()));
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  clear_interrupt();
  talk_line(fmt::format("tokamak: finishing the running requests, {} seconds at most (Ctrl-C again cuts them off)",
                        static_cast<int>(kDrainSeconds)));
  const bool clean = server->shut_down(kDrainSeconds);
  talk_line(clean ? "tokamak: done" : "tokamak: some requests were cut off");
  return 0;
}

}  // namespace tokamak::cli
