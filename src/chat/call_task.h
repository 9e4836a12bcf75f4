// Coroutines that read text which comes in pieces: the parser is written as if all text were there and sleeps where it
// ends. Internal to call_parser.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tokamak {

// Starts when awaited; resumes its caller at the end. T is moved out once.
template <class T>
class [[nodiscard]] CallTask {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  struct Final {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle handle) noexcept {
      const std::coroutine_handle<> caller = handle.promise().caller;
      return caller ? caller : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  struct promise_type {
    std::coroutine_handle<> caller;
    std::optional<T> value;
    CallTask get_return_object() { return CallTask(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(T v) { value = std::move(v); }
    void unhandled_exception() { std::terminate(); }  // nothing in the parser throws
  };

  CallTask() = default;
  CallTask(CallTask&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  CallTask& operator=(CallTask&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CallTask() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

  // For the outermost task.
  void start() { handle_.resume(); }
  bool is_over() const { return handle_.done(); }

 private:
  explicit CallTask(Handle handle) : handle_(handle) {}
  Handle handle_;
};

// The text so far. What was read since the last drop() is kept, so that a reader can go back.
class CallInput {
 public:
  static constexpr int kEnd = -1;

  struct Peek {
    CallInput& in;
    bool await_ready() const { return in.at_ < in.text_.size() || in.ended_; }
    void await_suspend(std::coroutine_handle<> reader) { in.reader_ = reader; }
    int await_resume() const { return in.at_ < in.text_.size() ? static_cast<uint8_t>(in.text_[in.at_]) : kEnd; }
  };
  // The next byte, or kEnd; waits for it.
  Peek peek() { return {*this}; }
  void skip() {  // nothing at the end
    if (at_ < text_.size()) ++at_;
    if (at_ > furthest_) furthest_ = at_;
  }
  size_t at() const { return at_; }
  void go_back(size_t at) { at_ = at; }
  void go_to_furthest() { at_ = furthest_; }
  void drop() {
    text_.erase(0, at_);
    furthest_ -= at_;
    marked_ -= std::min(marked_, at_);
    at_ = 0;
  }
  std::string_view all() const { return text_; }
  // What was read up to here has been used.
  void mark() { marked_ = at_; }
  std::string_view behind_mark() const { return std::string_view(text_).substr(marked_); }
  bool has_ended() const { return ended_; }
  std::string_view read() const { return std::string_view(text_).substr(0, at_); }
  std::string_view unread() const { return std::string_view(text_).substr(at_); }

  void append(std::string_view text) {
    text_ += text;
    wake();
  }
  void end() {
    ended_ = true;
    wake();
  }

 private:
  void wake() {
    if (reader_ && (at_ < text_.size() || ended_)) std::exchange(reader_, {}).resume();
  }
  std::string text_;
  size_t at_ = 0, furthest_ = 0, marked_ = 0;
  bool ended_ = false;
  std::coroutine_handle<> reader_;
};

}  // namespace tokamak
