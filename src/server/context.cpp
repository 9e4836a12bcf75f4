#include "server/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/log.h"

namespace tokamak::server {

Workers::Workers(int n_threads) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Workers::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      work();
    } catch (const std::exception& e) {  // a mistake of ours: this request gets status 500, the others go on
      log_line(LogLevel::warning, fmt::format("a request ended by an exception: {}", e.what()));
    }
  }
}

std::string new_id(std::string_view prefix) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  thread_local std::random_device device;
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[device() % kLetters.size()];
  return id;
}

std::string header_text(std::string text) {
  constexpr size_t kMaxBytes = 2000;
  if (text.size() > kMaxBytes) text.replace(kMaxBytes, std::string::npos, "...");
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tokamak::server
