#include "cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/partial_files.h"

namespace tokamak::cli {

namespace {
constexpr int kInterruptStatus = error_row(ErrorCode::cancelled).exit_status;
constexpr int kLostFileStatus = error_row(ErrorCode::io_failed).exit_status;
constexpr std::string_view kReset = "\x1b[0m\n";
constexpr auto kQuietTime = std::chrono::milliseconds(300);
std::atomic<int> interrupts = 0;
int write_errno = 0;

extern "C" void on_interrupt(int) {
  if (interrupts.fetch_add(1) == 0) return;
  unlink_partial_files();
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, kReset.data(), kReset.size()) < 0) _exit(kInterruptStatus);
  _exit(kInterruptStatus);
}

// Reading a page that the file no longer has. Other bus errors are faults of ours or of the machine and keep their
// meaning: the instruction is tried again without a handler.
extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {
    std::signal(signal, SIG_DFL);
    return;
  }
  unlink_partial_files();
  constexpr std::string_view kText =
      "tokamak: a model file was truncated or its disk went away while it was in use (restore the file, run again)\n";
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, kReset.data(), kReset.size()) < 0) _exit(kLostFileStatus);
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(kLostFileStatus);
  _exit(kLostFileStatus);
}
}  // namespace

bool input_is_terminal() { return isatty(STDIN_FILENO) == 1; }
bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool talk_is_terminal() { return isatty(STDERR_FILENO) == 1; }

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool print(std::string_view text) {
  if (write_errno != 0) return false;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    write_errno = errno == 0 ? EIO : errno;
  return write_errno == 0;
}

Result<void> output_state() {
  if (write_errno == 0) return {};
  const bool full = write_errno == ENOSPC || write_errno == EDQUOT || write_errno == EFBIG;
  return Error{.code = full ? ErrorCode::no_space : ErrorCode::io_failed,
               .what = fmt::format("cannot write: {}", std::strerror(write_errno)),
               .where = "standard output",
               .hint = full ? "free some space" : ""};
}

void talk(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void catch_interrupts(bool terminate_too) {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  if (!terminate_too) return;
  for (const int signal : {SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}
InterruptScope::InterruptScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  catch_interrupts(/*terminate_too=*/true);
}
InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}
void catch_lost_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}
bool interrupted() { return interrupts > 0; }
void clear_interrupt() { interrupts = 0; }

namespace {
// "  3:20 left", once enough is done to tell.
std::string time_left(double seconds_spent, double fraction) {
  constexpr double kMinFraction = 0.02, kMaxSeconds = 360000;
  if (fraction < kMinFraction || fraction >= 1) return "";
  const double left = seconds_spent * (1 - fraction) / fraction;
  if (left < 2 || left > kMaxSeconds) return "";
  const auto seconds = static_cast<int64_t>(left);
  if (seconds < 3600) return fmt::format("  {}:{:02} left", seconds / 60, seconds % 60);
  return fmt::format("  {}:{:02}:{:02} left", seconds / 3600, seconds / 60 % 60, seconds % 60);
}
}  // namespace

ProgressBar::ProgressBar(std::string label, bool visible)
    : label_(std::move(label)), visible_(visible && talk_is_terminal()) {}

bool ProgressBar::update(double fraction) {
  const int percent = static_cast<int>(100 * std::clamp(fraction, 0.0, 1.0));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  const bool is_slow = spent > kQuietTime;
  if (visible_ && is_slow && percent != last_percent_) {
    constexpr int kCells = 30;
    const auto n_full = static_cast<size_t>(percent * kCells / 100);
    talk(fmt::format("\r{} [{}{}] {:3}%{:14}", label_, std::string(n_full, '='), std::string(kCells - n_full, ' '),
                     percent, time_left(spent.count(), fraction)));
    last_percent_ = percent;
    drawn_ = true;
  }
  return !interrupted();
}

void ProgressBar::clear() {
  if (drawn_) talk("\r\x1b[K");
  drawn_ = false;
  last_percent_ = -1;
}

}  // namespace tokamak::cli
