// Boost.Beast behind http.h: the only file of the project that includes it.
#include "server/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cctype>
#include <thread>

#include "server/exchange_queue.h"

namespace tokamak::server {

namespace {
namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using net::ip::tcp;
using namespace net::experimental::awaitable_operators;

constexpr auto kTuple = net::as_tuple(net::use_awaitable);
constexpr auto kLeftPollSeconds = std::chrono::milliseconds(100);
constexpr size_t kMaxChunkBytes = 64 << 10;
const error_code kCrowded = net::error::no_memory;  // no room for one more body

std::chrono::nanoseconds seconds(double s) { return std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9)); }

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// Wakes a connection that waits for its handler; from any thread.
class Wake {
 public:
  explicit Wake(net::io_context& io) : timer_(io) {}
  net::steady_timer& timer() { return timer_; }

 private:
  net::steady_timer timer_;
};

struct Shared {
  HttpOptions options;
  HttpHandler handler;
  HttpErrorBody error_body;
  std::optional<net::ssl::context> tls;
  std::atomic<int64_t> n_connections = 0;
  uint64_t n_bodies_bytes = 0;  // socket thread only
  std::atomic<bool> closing = false;
};

// What the body of one request adds to Shared::n_bodies_bytes.
class BodyShare {
 public:
  explicit BodyShare(Shared& shared) : shared_(shared) {}
  ~BodyShare() { shared_.n_bodies_bytes -= n_bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  // To so many bytes. False: there is no room for them.
  bool grow(uint64_t n_bytes) {
    shared_.n_bodies_bytes += n_bytes - n_bytes_;
    n_bytes_ = n_bytes;
    return shared_.n_bodies_bytes <= shared_.options.max_bodies_bytes;
  }

 private:
  Shared& shared_;
  uint64_t n_bytes_ = 0;
};

// The client has closed its side, whatever bytes it sent before.
bool has_left(tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

template <class Stream>
class Connection {
 public:
  Connection(Stream stream, net::io_context& io, std::shared_ptr<Shared> shared)
      : stream_(std::move(stream)), io_(io), shared_(std::move(shared)) {
    ++shared_->n_connections;
  }
  ~Connection() { --shared_->n_connections; }

  net::awaitable<void> run() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      lowest().expires_after(seconds(shared_->options.read_seconds));
      const auto [error] = co_await stream_.async_handshake(net::ssl::stream_base::server, kTuple);
      if (error) co_return;
    }
    while (!shared_->closing && co_await serve_one()) {
    }
    error_code ignored;
    lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  // One request and its answer; false: the connection ends.
  net::awaitable<bool> serve_one() {
    if (buffer_.size() == 0) {
      lowest().expires_never();
      net::steady_timer idle(io_, seconds(shared_->options.idle_seconds));
      const auto waited =
          co_await (lowest().socket().async_wait(tcp::socket::wait_read, kTuple) || idle.async_wait(kTuple));
      if (waited.index() == 1) co_return false;
    }
    Parser parser;
    parser.header_limit(shared_->options.max_header_bytes);
    parser.body_limit(shared_->options.max_body_bytes);
    lowest().expires_after(seconds(shared_->options.read_seconds));
    if (const auto [error, n] = co_await http::async_read_header(stream_, buffer_, parser, kTuple); error)
      co_return co_await refuse(error, parser);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      http::response<http::empty_body> go_on{http::status::continue_, parser.get().version()};
      if (const auto [error, n] = co_await http::async_write(stream_, go_on, kTuple); error) co_return false;
    }
    BodyShare share(*shared_);
    while (!parser.is_done()) {
      lowest().expires_after(seconds(shared_->options.read_seconds));
      if (const auto [error, n] = co_await http::async_read_some(stream_, buffer_, parser, kTuple); error)
        co_return co_await refuse(error, parser);
      if (share.grow(parser.get().body().size())) continue;
      share.grow(0);
      co_return co_await refuse(kCrowded, parser);
    }
    const bool keep_alive = parser.keep_alive();
    const unsigned version = parser.get().version();
    is_head_ = parser.get().method() == http::verb::head;
    HttpRequest request;
    if (!read_request(parser.release(), request)) {
      co_return co_await write(shared_->error_body(400, request.path, "the request's target is malformed"), version,
                               false);
    }
    co_return co_await answer(std::move(request), version, keep_alive);
  }

  bool read_request(http::request<http::string_body> message, HttpRequest& out) {
    out.method = std::string(message.method_string());
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      out.headers[std::move(name)] = std::string(field.value());
    }
    error_code ignored;
    out.peer = lowest().socket().remote_endpoint(ignored).address().to_string();
    const bool ok =
        split_target(std::string_view(message.target().data(), message.target().size()), out.path, out.query);
    out.body = std::move(message.body());
    return ok;
  }

  // What reading ended with.
  net::awaitable<bool> refuse(error_code error, const Parser& parser) {
    if (error == http::error::end_of_stream) co_return false;
    if (error == beast::error::timeout) co_return false;  // the stream has closed its socket
    const auto& target = parser.get().target();
    std::string path;
    std::map<std::string, std::string> query;
    split_target(std::string_view(target.data(), target.size()), path, query);
    const bool is_syntax = error.category() == http::make_error_code(http::error::bad_version).category();
    const auto status = error == kCrowded ? std::pair(503, "too many large bodies are being worked on: come back later")
                        : error == http::error::body_limit   ? std::pair(413, "the body is too large")
                        : error == http::error::header_limit ? std::pair(431, "the header is too large")
                        : is_syntax                          ? std::pair(400, "the request is not valid HTTP")
                                                             : std::pair(0, "");
    if (status.first == 0) co_return false;  // the connection broke
    co_await write(shared_->error_body(status.first, path, status.second), 11, false);
    co_await linger();
    co_return false;
  }

  // Reads on for a moment, so that the client sees the answer before the connection is reset.
  net::awaitable<void> linger() {
    error_code ignored;
    lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    lowest().expires_after(std::chrono::seconds(2));
    std::array<char, 16384> sink;
    for (size_t total = 0; total < (size_t{64} << 20);) {
      const auto [error, n] = co_await lowest().async_read_some(net::buffer(sink), kTuple);
      if (error) break;
      total += n;
    }
  }

  net::awaitable<bool> answer(HttpRequest request, unsigned version, bool keep_alive) {
    auto wake = std::make_shared<Wake>(io_);
    const auto queue = std::make_shared<ExchangeQueue>(
        std::move(request), [wake, &io = io_] { net::post(io, [wake] { wake->timer().cancel(); }); });
    shared_->handler(ExchangeQueue::for_handler(queue));
    const auto done = co_await (write_answer(*queue, wake->timer(), version, keep_alive) || watch(*queue));
    queue->close();
    co_return done.index() == 0 && std::get<0>(done);
  }

  // Ends when the client has left.
  net::awaitable<void> watch(ExchangeQueue& queue) {
    lowest().expires_never();
    co_await lowest().socket().async_wait(tcp::socket::wait_read, kTuple);
    net::steady_timer timer(io_);
    while (!has_left(lowest().socket())) {  // it sent the next request early, or TLS bytes
      timer.expires_after(kLeftPollSeconds);
      const auto [error] = co_await timer.async_wait(kTuple);
      if (error) co_return;
    }
    queue.client_left();
  }

  net::awaitable<bool> write_answer(ExchangeQueue& queue, net::steady_timer& wake, unsigned version, bool keep_alive) {
    for (;;) {
      auto piece = queue.take();
      if (!piece) {
        if (queue.is_cut_off()) co_return false;
        wake.expires_after(ping_interval());
        const auto [error] = co_await wake.async_wait(kTuple);
        const bool silent = error != net::error::operation_aborted;
        if (silent && queue.has_begun_events() && !co_await write_chunk(": ping\n\n")) co_return false;
        continue;
      }
      switch (piece->kind) {
        case Piece::Kind::response:
          co_return co_await write(std::move(piece->response), version, keep_alive);
        case Piece::Kind::begin_events:
          if (!co_await write_event_header(piece->response.headers, version, keep_alive)) co_return false;
          break;
        case Piece::Kind::events:
          while (piece->text.size() < kMaxChunkBytes && queue.append_next_events(piece->text)) {
          }
          if (!co_await write_chunk(piece->text)) co_return false;
          break;
        case Piece::Kind::end: {
          lowest().expires_after(seconds(shared_->options.write_seconds));
          const auto [error, n] = co_await net::async_write(stream_, http::make_chunk_last(), kTuple);
          co_return !error && keep_alive;
        }
      }
    }
  }

  std::chrono::nanoseconds ping_interval() const {
    return shared_->options.ping_seconds > 0 ? seconds(shared_->options.ping_seconds) : std::chrono::hours(24 * 365);
  }

  net::awaitable<bool> write_chunk(std::string_view text) {
    lowest().expires_after(seconds(shared_->options.write_seconds));
    const auto [error, n] =
        co_await net::async_write(stream_, http::make_chunk(net::buffer(text.data(), text.size())), kTuple);
    lowest().expires_never();
    co_return !error;
  }

  template <class Message>
  void add_headers(Message& message, const Headers& headers) {
    for (const auto& [name, value] : headers) message.set(name, value);
  }

  net::awaitable<bool> write_event_header(const Headers& headers, unsigned version, bool keep_alive) {
    http::response<http::empty_body> head{http::status::ok, version};
    head.set(http::field::content_type, "text/event-stream; charset=utf-8");
    head.set(http::field::cache_control, "no-cache");
    head.set("X-Accel-Buffering", "no");
    add_headers(head, headers);
    head.keep_alive(keep_alive);
    head.chunked(true);
    http::response_serializer<http::empty_body> serializer{head};
    lowest().expires_after(seconds(shared_->options.write_seconds));
    const auto [error, n] = co_await http::async_write_header(stream_, serializer, kTuple);
    lowest().expires_never();
    co_return !error;
  }

  net::awaitable<bool> write(HttpResponse response, unsigned version, bool keep_alive) {
    http::response<http::string_body> message{static_cast<http::status>(response.status), version};
    if (!response.content_type.empty()) message.set(http::field::content_type, response.content_type);
    add_headers(message, response.headers);
    message.keep_alive(keep_alive);
    message.body() = std::move(response.body);
    message.prepare_payload();
    lowest().expires_after(seconds(shared_->options.write_seconds));
    if (is_head_) {  // the length that GET would have, and no body
      http::response_serializer<http::string_body> serializer{message};
      const auto [error, n] = co_await http::async_write_header(stream_, serializer, kTuple);
      lowest().expires_never();
      co_return !error && keep_alive;
    }
    const auto [error, n] = co_await http::async_write(stream_, message, kTuple);
    lowest().expires_never();
    co_return !error && keep_alive;
  }

  Stream stream_;
  net::io_context& io_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_;
  bool is_head_ = false;  // of the request that is being answered
};

template <class Stream>
void start_connection(Stream stream, net::io_context& io, std::shared_ptr<Shared> shared) {
  net::co_spawn(
      io,
      [connection = std::make_unique<Connection<Stream>>(std::move(stream), io,
                                                         std::move(shared))]() mutable -> net::awaitable<void> {
        const auto own = std::move(connection);
        co_await own->run();
      },
      [](std::exception_ptr) {});  // out of memory: this connection ends, the others go on
}

net::awaitable<void> accept_all(tcp::acceptor& acceptor, net::io_context& io, std::shared_ptr<Shared> shared) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kTuple);
    if (error == net::error::operation_aborted || !acceptor.is_open()) co_return;
    if (error) {  // out of file descriptors: others will end
      net::steady_timer pause(io, std::chrono::milliseconds(50));
      co_await pause.async_wait(kTuple);
      continue;
    }
    if (shared->n_connections >= shared->options.max_connections) continue;  // closes it
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (shared->tls)
      start_connection(TlsStream(beast::tcp_stream(std::move(socket)), *shared->tls), io, shared);
    else
      start_connection(PlainStream(std::move(socket)), io, shared);
  }
}

class BeastServer : public HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler handler,
                                                   HttpErrorBody error_body) {
    auto server = std::make_unique<BeastServer>();
    server->shared_->options = options;
    server->shared_->handler = std::move(handler);
    server->shared_->error_body = std::move(error_body);
    TRY(server->load_tls());
    TRY(server->listen());
    net::co_spawn(server->io_, accept_all(server->acceptor_, server->io_, server->shared_), net::detached);
    server->thread_ = std::thread([raw = server.get()] { raw->io_.run(); });
    return std::unique_ptr<HttpServer>(std::move(server));
  }
  ~BeastServer() override { stop(); }

  uint16_t port() const override { return port_; }
  int64_t n_connections() const override { return shared_->n_connections; }
  void close_listener() override {
    shared_->closing = true;
    net::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
  }
  void stop() override {
    if (!thread_.joinable()) return;
    io_.stop();
    thread_.join();
  }

 private:
  Result<void> load_tls() {
    const HttpOptions& options = shared_->options;
    if (options.tls_certificate.empty()) return {};
    auto& tls = shared_->tls.emplace(net::ssl::context::tls_server);
    tls.set_options(net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1 |
                    net::ssl::context::default_workarounds);
    error_code error;
    tls.use_certificate_chain_file(options.tls_certificate, error);
    if (error) return Error{.code = ErrorCode::bad_file, .what = error.message(), .where = options.tls_certificate};
    tls.use_private_key_file(options.tls_key, net::ssl::context::pem, error);
    if (error) return Error{.code = ErrorCode::bad_file, .what = error.message(), .where = options.tls_key};
    return {};
  }

  Result<void> listen() {
    const HttpOptions& options = shared_->options;
    const std::string where = fmt::format("{}:{}", options.host, options.port);
    const auto failed = [&](const error_code& error) {
      const bool in_use = error == net::error::address_in_use;
      return Error{.code = in_use ? ErrorCode::bad_argument : ErrorCode::io_failed,
                   .what = "cannot listen: " + error.message(),
                   .where = where,
                   .hint = in_use ? "another program has the port; choose one with --port" : ""};
    };
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty())
      return Error{.code = ErrorCode::bad_argument,
                   .what = "is not an address of this machine",
                   .where = "--host " + options.host};
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (error) return failed(error);
    port_ = acceptor_.local_endpoint(error).port();
    return {};
  }

  net::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, HttpHandler handler,
                                                      HttpErrorBody error_body) {
  return BeastServer::start(options, std::move(handler), std::move(error_body));
}

}  // namespace tokamak::server
