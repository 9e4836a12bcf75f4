#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>

#include "http_client_helpers.h"
#include "server/http.h"

namespace tokamak::server {
namespace {

using test::fetch;
using test::RawClient;

HttpResponse error_body(int status, std::string_view path, std::string_view what) {
  return {.status = status, .content_type = "text/plain", .body = std::string(path) + ": " + std::string(what)};
}

std::unique_ptr<HttpServer> start(HttpHandler handler, HttpOptions options = {}) {
  options.port = 0;
  auto server = HttpServer::start(options, std::move(handler), error_body);
  EXPECT_TRUE(server) << server.error().message();
  return server ? std::move(*server) : nullptr;
}

void echo(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  std::string text = request.method + " " + request.path;
  for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
  exchange->respond({.content_type = "text/plain", .body = text + " " + request.body});
}

TEST(HttpServer, AnswersWithMethodPathQueryAndBody) {
  const auto server = start(echo);
  const auto reply = fetch(server->port(), "POST", "/v1/a%20b?x=1&y=%C3%BC+z", "hello");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "POST /v1/a b x=1 y=\u00fc z hello");
}

TEST(HttpServer, KeepsTheConnectionForTheNextRequest) {
  const auto server = start(echo);
  RawClient client(server->port());
  for (const char* path : {"/first", "/second"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_NE(client.read_until(path + std::string(" ")).find("200 OK"), std::string::npos);
  }
  // Two at once are answered one after the other.
  client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until("GET /a ").find("200 OK"), std::string::npos);
  EXPECT_NE(client.read_until("GET /b ").find("200 OK"), std::string::npos);
}

TEST(HttpServer, RefusesWhatIsTooLargeOrNoHttp) {
  const auto server = start(echo, {.max_body_bytes = 1000, .max_header_bytes = 2000});
  EXPECT_EQ(fetch(server->port(), "POST", "/big", std::string(1001, 'x')).status, 413);
  EXPECT_EQ(fetch(server->port(), "POST", "/fits", std::string(1000, 'x')).status, 200);
  EXPECT_EQ(fetch(server->port(), "GET", "/h", "", "X-Long: " + std::string(3000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(fetch(server->port(), "GET", "/bad%zz").status, 400);
  EXPECT_EQ(fetch(server->port(), "GET", "/%00").status, 400);
  RawClient client(server->port());
  client.send("\x16\x03\x01 nonsense\r\n\r\n");
  EXPECT_NE(client.read_all().find(" 400 "), std::string::npos);
}

TEST(HttpServer, BodiesTogetherAreBounded) {
  std::shared_ptr<Exchange> kept;
  std::promise<void> arrived;
  const auto server = start(
      [&](std::shared_ptr<Exchange> exchange) {
        if (exchange->request().path != "/first") return echo(exchange);
        kept = std::move(exchange);
        arrived.set_value();
      },
      {.max_body_bytes = 1000, .max_bodies_bytes = 1500});
  RawClient first(server->port());
  first.send("POST /first HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n" +
             std::string(1000, 'x'));
  arrived.get_future().wait();
  EXPECT_EQ(fetch(server->port(), "POST", "/a", std::string(501, 'x')).status, 503);
  EXPECT_EQ(fetch(server->port(), "POST", "/b", std::string(500, 'x')).status, 200);
  kept->respond({.body = "{}"});
  kept.reset();
  EXPECT_NE(first.read_all().find("200 OK"), std::string::npos);
  EXPECT_EQ(fetch(server->port(), "POST", "/c", std::string(1000, 'x')).status, 200);
}

TEST(HttpServer, ALateHeaderOrBodyIsCutOff) {
  const auto server = start(echo, {.read_seconds = 0.3});
  const auto start_time = std::chrono::steady_clock::now();
  RawClient slow(server->port());
  slow.send("POST /slow HTTP/1.1\r\nHost: x\r\n");
  EXPECT_EQ(slow.read_all(), "");
  RawClient body(server->port());
  body.send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.read_all(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, std::chrono::seconds(9));  // the client gives up after 10
}

TEST(HttpServer, StreamsEventsFromAnotherThreadInOrder) {
  std::thread writer;
  const auto server = start([&](std::shared_ptr<Exchange> exchange) {
    writer = std::thread([exchange = std::move(exchange)] {
      exchange->begin_events({{"X-Extra", "1"}});
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(exchange->send_event("data: " + std::to_string(i) + "\n\n"));
      exchange->end_events();
    });
  });
  const auto reply = fetch(server->port(), "GET", "/events");
  writer.join();
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.head.find("text/event-stream"), std::string::npos);
  EXPECT_NE(reply.head.find("X-Extra: 1"), std::string::npos);
  size_t at = 0;
  for (int i = 0; i < 100; ++i) {
    at = reply.body.find("data: " + std::to_string(i) + "\n\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_TRUE(reply.body.ends_with("0\r\n\r\n"));  // the last chunk
}

TEST(HttpServer, SilentStreamsArePinged) {
  std::shared_ptr<Exchange> kept;
  const auto server = start(
      [&](std::shared_ptr<Exchange> exchange) {
        exchange->begin_events();
        kept = std::move(exchange);
      },
      {.ping_seconds = 0.05});
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_until(": ping\n\n").find(": ping"), std::string::npos);
  kept.reset();
  EXPECT_NE(client.read_until("0\r\n\r\n").find("0\r\n\r\n"), std::string::npos);
}

TEST(HttpServer, TellsTheHandlerThatTheClientLeft) {
  for (const bool streams : {false, true}) {
    std::promise<void> left;
    std::shared_ptr<Exchange> kept;
    const auto server = start([&](std::shared_ptr<Exchange> exchange) {
      if (streams) exchange->begin_events();
      exchange->on_disconnect([&left] { left.set_value(); });
      kept = std::move(exchange);
    });
    {
      RawClient client(server->port());
      client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      if (streams) client.read_until("\r\n\r\n");
    }
    EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
    if (streams) {
      EXPECT_FALSE(kept->send_event("data: late\n\n"));
    }
    kept.reset();
  }
}

TEST(HttpServer, ADroppedRequestIsAnError) {
  const auto server = start([](std::shared_ptr<Exchange>) {});
  EXPECT_EQ(fetch(server->port(), "GET", "/").status, 500);
}

TEST(HttpServer, AReaderThatIsTooSlowIsCutOff) {
  std::promise<int> sent;
  std::promise<void> left;
  std::thread writer;
  std::shared_ptr<Exchange> kept;
  std::mutex mutex;  // that of an answer, which its writer and its callback take
  const auto server = start(
      [&](std::shared_ptr<Exchange> exchange) {
        exchange->on_disconnect([&] {
          const std::lock_guard lock(mutex);
          left.set_value();
        });
        kept = std::move(exchange);
        writer = std::thread([&] {
          kept->begin_events();
          const std::lock_guard lock(mutex);
          int n = 0;
          while (n < 10000 && kept->send_event(std::string(10000, 'x') + "\n\n")) ++n;
          sent.set_value(n);
        });
      },
      {.write_seconds = 0.3});
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_LT(sent.get_future().get(), 10000);  // nothing was read: buffers are bounded
  EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  writer.join();
  kept.reset();
}

TEST(HttpServer, APortInUseIsOneSentence) {
  const auto server = start(echo);
  const auto second = HttpServer::start({.port = server->port()}, echo, error_body);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("--port"), std::string::npos);
}

TEST(HttpServer, ClosesItsListenerAndFinishesAnswers) {
  std::shared_ptr<Exchange> kept;
  std::promise<void> arrived;
  const auto server = start([&](std::shared_ptr<Exchange> exchange) {
    kept = std::move(exchange);
    arrived.set_value();
  });
  RawClient client(server->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  arrived.get_future().wait();
  server->close_listener();
  kept->respond({.body = "{}"});
  kept.reset();
  EXPECT_NE(client.read_all().find("200 OK"), std::string::npos);
}

}  // namespace
}  // namespace tokamak::server
