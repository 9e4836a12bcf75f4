// The answer of one request on its way from any thread to the socket thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "server/http.h"

namespace tokamak::server {

// What an answer consists of, in order.
struct Piece {
  enum class Kind : uint8_t { response, begin_events, events, end } kind = Kind::end;
  HttpResponse response;
  std::string text;
};

class ExchangeQueue : public Exchange {
 public:
  // wake() is called whenever there is something to take; from any thread, must not block.
  ExchangeQueue(HttpRequest request, std::function<void()> wake);
  // The handler's reference: when its last copy goes, an answer that never came becomes status 500.
  static std::shared_ptr<Exchange> for_handler(std::shared_ptr<ExchangeQueue> queue);

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_events(Headers headers) override;
  bool send_event(std::string text) override;
  void end_events() override;
  void on_disconnect(std::function<void()> callback) override;

  // --- for the socket thread ---
  std::optional<Piece> take();
  // Appends the next piece to `text` if it is events.
  bool append_next_events(std::string& text);
  bool has_begun_events() const;
  bool is_cut_off() const;  // too much was waiting
  void client_left();
  void close();  // the connection is done with it: nothing is taken any more

 private:
  static constexpr size_t kMaxWaitingBytes = size_t{8} << 20;
  void push(Piece piece);  // with the lock held
  void abandon();

  const HttpRequest request_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<Piece> pieces_;
  size_t n_waiting_bytes_ = 0;
  bool begun_ = false, is_events_ = false, ended_ = false;
  bool gone_ = false;     // nobody reads any more
  bool cut_off_ = false;  // because it read too slowly
  std::function<void()> on_disconnect_;
};

}  // namespace tokamak::server
