// The terminal as the commands see it: results on standard output, talk on standard error, Ctrl-C as a flag.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tokamak::cli {

bool input_is_terminal();
bool output_is_terminal();
bool talk_is_terminal();  // standard error
int terminal_columns();   // of standard error; 80 when unknown

// To standard output, at once. False when the write failed (full disk, closed pipe): stop working, output_state()
// tells.
bool print(std::string_view text);
// What became of everything printed. Errors: no_space, io_failed.
Result<void> output_state();

// To standard error.
void talk(std::string_view text);
inline void talk_line(std::string_view line) { talk(std::string(line) + "\n"); }

// From now on the first Ctrl-C only raises interrupted(); a second one before clear_interrupt() leaves with 130 and
// takes unfinished files away.
// `terminate_too`: the same for SIGTERM and SIGHUP, for commands that would leave half a file behind; what nohup had
// ignored stays ignored.
void catch_interrupts(bool terminate_too = false);
bool interrupted();
void clear_interrupt();

// catch_interrupts(true) for as long as the object lives: a step that writes a file in a command that does not.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_;
};

// From now on the loss of a mapped file (truncated, or on a disk that is gone) ends the program with one sentence and
// the status of io_failed, instead of a bare SIGBUS. Why: docs/rationale/mapped_files.md.
void catch_lost_files();

// A bar on standard error when that is a terminal and the work takes a while, and nothing otherwise. Gone when the
// object is.
class ProgressBar {
 public:
  // `visible` false: never drawn.
  ProgressBar(std::string label, bool visible);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Returns false after Ctrl-C, so that it can be handed on as a Progress.
  bool update(double fraction);
  void clear();

 private:
  std::string label_;
  bool visible_, drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int last_percent_ = -1;
};

}  // namespace tokamak::cli
