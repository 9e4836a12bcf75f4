#include "server/exchange_filters.h"

#include <atomic>
#include <chrono>

namespace tokamak::server {

namespace {
class Filter : public Exchange {
 public:
  explicit Filter(std::shared_ptr<Exchange> inner) : inner_(std::move(inner)) {}
  const HttpRequest& request() const override { return inner_->request(); }
  void respond(HttpResponse response) override { inner_->respond(std::move(response)); }
  void begin_events(Headers headers) override { inner_->begin_events(std::move(headers)); }
  bool send_event(std::string text) override { return inner_->send_event(std::move(text)); }
  void end_events() override { inner_->end_events(); }
  void on_disconnect(std::function<void()> callback) override { inner_->on_disconnect(std::move(callback)); }

 protected:
  std::shared_ptr<Exchange> inner_;
};

class CorsExchange : public Filter {
 public:
  CorsExchange(std::shared_ptr<Exchange> inner, std::string origin)
      : Filter(std::move(inner)), origin_(std::move(origin)) {}
  void respond(HttpResponse response) override {
    add(response.headers);
    Filter::respond(std::move(response));
  }
  void begin_events(Headers headers) override {
    add(headers);
    Filter::begin_events(std::move(headers));
  }

 private:
  void add(Headers& headers) const {
    headers.emplace_back("Access-Control-Allow-Origin", origin_);
    headers.emplace_back("Access-Control-Allow-Headers", "Authorization, *");
    headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  }
  std::string origin_;
};

class LoggedExchange : public Filter {
 public:
  LoggedExchange(std::shared_ptr<Exchange> inner, RequestLog log, bool with_body)
      : Filter(std::move(inner)), log_(std::move(log)), with_body_(with_body) {}
  ~LoggedExchange() override { write(499, true); }  // let go without an answer: the client left

  void respond(HttpResponse response) override {
    const int status = response.status;
    Filter::respond(std::move(response));
    if (!is_stream_) write(status, false);
  }
  void begin_events(Headers headers) override {
    is_stream_ = true;
    Filter::begin_events(std::move(headers));
  }
  void end_events() override {
    Filter::end_events();
    write(200, false);
  }

 private:
  void write(int status, bool is_cut_off) {
    if (is_written_.exchange(true)) return;
    const HttpRequest& r = request();
    if (r.method != "POST" && status < 400) return;
    log_({.peer = r.peer,
          .method = r.method,
          .path = r.path,
          .body = with_body_ ? r.body : std::string(),
          .status = status,
          .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
          .is_cut_off = is_cut_off});
  }

  const RequestLog log_;
  const bool with_body_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_stream_ = false, is_written_ = false;
};
}  // namespace

std::shared_ptr<Exchange> with_cors(std::shared_ptr<Exchange> exchange, const std::string& origin) {
  if (origin.empty()) return exchange;
  return std::make_shared<CorsExchange>(std::move(exchange), origin);
}

std::shared_ptr<Exchange> with_log(std::shared_ptr<Exchange> exchange, const RequestLog& log, bool with_body) {
  if (!log) return exchange;
  return std::make_shared<LoggedExchange>(std::move(exchange), log, with_body);
}

}  // namespace tokamak::server
