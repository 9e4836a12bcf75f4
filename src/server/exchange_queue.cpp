#include "server/exchange_queue.h"

#include <algorithm>

namespace tokamak::server {

ExchangeQueue::ExchangeQueue(HttpRequest request, std::function<void()> wake)
    : request_(std::move(request)), wake_(std::move(wake)) {}

std::shared_ptr<Exchange> ExchangeQueue::for_handler(std::shared_ptr<ExchangeQueue> queue) {
  Exchange* raw = queue.get();
  return {raw, [queue = std::move(queue)](Exchange*) { queue->abandon(); }};
}

void ExchangeQueue::push(Piece piece) {
  pieces_.push_back(std::move(piece));
  wake_();
}

void ExchangeQueue::respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (begun_) return;
  begun_ = ended_ = true;
  push({.kind = Piece::Kind::response, .response = std::move(response), .text = {}});
}

void ExchangeQueue::begin_events(Headers headers) {
  const std::lock_guard lock(mutex_);
  if (begun_) return;
  begun_ = is_events_ = true;
  push({.kind = Piece::Kind::begin_events, .response = {.headers = std::move(headers)}, .text = {}});
}

bool ExchangeQueue::send_event(std::string text) {
  const std::lock_guard lock(mutex_);
  if (gone_ || ended_ || !is_events_) return false;
  n_waiting_bytes_ += text.size();
  if (n_waiting_bytes_ <= kMaxWaitingBytes) {
    push({.kind = Piece::Kind::events, .response = {}, .text = std::move(text)});
    return true;
  }
  // The socket thread calls on_disconnect_: the sender may hold locks that the callback takes.
  gone_ = cut_off_ = true;
  wake_();
  return false;
}

void ExchangeQueue::end_events() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !is_events_) return;
  ended_ = true;
  push({});
}

void ExchangeQueue::on_disconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

void ExchangeQueue::abandon() {
  const std::lock_guard lock(mutex_);
  on_disconnect_ = nullptr;
  if (ended_) return;
  ended_ = true;
  if (!begun_)
    push({.kind = Piece::Kind::response,
          .response = {.status = 500,
                       .body = R"({"error":{"message":"the request was dropped","type":"server_error"}})"},
          .text = {}});
  else
    push({});
  begun_ = true;
}

std::optional<Piece> ExchangeQueue::take() {
  const std::lock_guard lock(mutex_);
  if (cut_off_ || pieces_.empty()) return {};
  Piece piece = std::move(pieces_.front());
  pieces_.pop_front();
  n_waiting_bytes_ -= std::min(n_waiting_bytes_, piece.text.size());
  return piece;
}

bool ExchangeQueue::append_next_events(std::string& text) {
  const std::lock_guard lock(mutex_);
  if (cut_off_ || pieces_.empty() || pieces_.front().kind != Piece::Kind::events) return false;
  text += pieces_.front().text;
  n_waiting_bytes_ -= std::min(n_waiting_bytes_, pieces_.front().text.size());
  pieces_.pop_front();
  return true;
}

bool ExchangeQueue::has_begun_events() const {
  const std::lock_guard lock(mutex_);
  return is_events_;
}

bool ExchangeQueue::is_cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

void ExchangeQueue::client_left() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (!ended_) std::swap(callback, on_disconnect_);
  }
  if (callback) callback();
}

// A connection that ended before the whole answer was written has left too.
void ExchangeQueue::close() {
  bool unread = false;
  {
    const std::lock_guard lock(mutex_);
    unread = !ended_ || !pieces_.empty();
  }
  if (unread) client_left();
  const std::lock_guard lock(mutex_);
  gone_ = true;
  pieces_.clear();
}

}  // namespace tokamak::server
