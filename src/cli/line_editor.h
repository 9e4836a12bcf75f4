// One line of input on a terminal, with editing keys and a history of the session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tokamak::cli {

// Keys: arrows, Home, End, Delete, Backspace, Ctrl-A B D E F H K L N P U W; pasted text may hold line breaks.
// Assumes a terminal that knows the usual (ECMA-48) control sequences. While no line is read the terminal is as before.
class LineEditor {
 public:
  enum class End : uint8_t { line, interrupt, end_of_input };

  // Shows `prompt` on standard error and reads from standard input. A line is UTF-8 (ill-formed bytes become U+FFFD)
  // and free of its end. Ctrl-C discards a line that has text and starts anew.
  End read(std::string_view prompt, std::string& line);

 private:
  enum class Step : uint8_t { more, line, interrupt, end_of_input };
  Step take_byte(char byte);
  Step take_control(char byte);
  void take_sequence();
  void insert(std::string_view bytes);
  void erase(size_t begin, size_t end);
  void recall(int direction);
  size_t before(size_t cursor) const;  // start of the character in front
  size_t after(size_t cursor) const;
  void draw() const;

  std::string prompt_, text_;
  size_t cursor_ = 0;  // byte in text_, at a character's start
  bool pasting_ = false;
  std::vector<std::string> history_;
  size_t recalled_ = 0;  // index into history_; its size: the line being written
  std::string unsent_;   // the line being written while an older one is shown
};

}  // namespace tokamak::cli
