// serve: a model behind HTTP, for many clients at once.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

Result<std::vector<std::string>> read_key_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{.code = ErrorCode::not_found, .what = "cannot be read", .where = path};
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty()) keys.push_back(line);
  }
  if (keys.empty())
    return Error{.code = ErrorCode::bad_argument, .what = "holds no key", .where = path, .hint = "one key a line"};
  return keys;
}

Result<std::vector<std::string>> read_keys(const SettingValues& values) {
  std::vector<std::string> keys = values.list("--api-key");
  if (const std::string& path = values.text("--api-key-file"); !path.empty())
    for (std::string& key : TRY(read_key_file(path))) keys.push_back(std::move(key));
  if (std::ranges::find(keys, std::string()) != keys.end())
    return Error{.code = ErrorCode::bad_argument,
                 .what = "an empty key would let everybody in",
                 .where = "--api-key",
                 .hint = "leave the flag (and TOKAMAK_API_KEY) away to serve without keys"};
  return keys;
}

// Reads the file of keys again when it has changed. A file that cannot be read leaves the keys as they are.
class KeyFile {
 public:
  explicit KeyFile(const SettingValues& values) : values_(values), path_(values.text("--api-key-file")) {
    changed_ = last_change();
  }
  void look(server::Server& server) {
    if (path_.empty()) return;
    const auto now = last_change();
    if (now == changed_) return;
    changed_ = now;
    if (auto keys = read_keys(values_)) {
      talk_line(fmt::format("tokamak: {} API keys read from {}", keys->size(), path_));
      server.set_api_keys(std::move(*keys));
    } else {
      talk_line("tokamak: the API keys stay as they were: " + keys.error().message());
    }
  }

 private:
  std::filesystem::file_time_type last_change() const {
    std::error_code ignored;
    return path_.empty() ? std::filesystem::file_time_type() : std::filesystem::last_write_time(path_, ignored);
  }
  const SettingValues& values_;
  std::string path_;
  std::filesystem::file_time_type changed_;
};

// Text of a client on one line of a terminal.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

void log_request(const server::RequestLogEntry& entry) {
  talk_line(
      one_line(fmt::format("{:%H:%M:%S} {} {} {} {} {:.2f} s{}{}", fmt::localtime(std::time(nullptr)), entry.peer,
                           entry.method, entry.path, entry.status, entry.seconds,
                           entry.is_cut_off ? " (the client left)" : "", entry.body.empty() ? "" : " " + entry.body)));
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
  const std::string& log = values.text("--log-requests");
  if (log != "off") options.log = log_request;
  options.log_bodies = log == "bodies";
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

// Waits for the running requests; another Ctrl-C ends them.
bool shut_down(server::Server& server) {
  std::atomic<bool> is_done = false;
  std::thread watch([&] {
    while (!is_done && !interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!is_done) server.cut_off();
  });
  const bool clean = server.shut_down(kDrainSeconds);
  is_done = true;
  watch.join();
  return clean;
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
  KeyFile key_file(values);
  for (int64_t tick = 0; !interrupted(); ++tick) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (tick % 20 == 0) key_file.look(*server);
  }
  clear_interrupt();
  talk_line(fmt::format("tokamak: finishing the running requests, {} seconds at most (Ctrl-C again cuts them off)",
                        static_cast<int>(kDrainSeconds)));
  const bool clean = shut_down(*server);
  talk_line(clean ? "tokamak: done" : "tokamak: some requests were cut off");
  return 0;
}

}  // namespace tokamak::cli
