#include "cli/line_editor.h"

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cerrno>

#include "base/utf8.h"
#include "cli/console.h"

namespace tokamak::cli {

namespace {
constexpr char kCtrlC = 3, kCtrlD = 4, kEscape = 27, kDelete = 127;
constexpr char control(char letter) { return static_cast<char>(letter - 'A' + 1); }

// Keys one by one and unprinted, for the lifetime of the object.
class RawTerminal {
 public:
  RawTerminal() {
    is_set_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!is_set_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | INLCR);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    talk("\x1b[?2004h");  // pasted text comes between marks
  }
  ~RawTerminal() {
    if (!is_set_) return;
    talk("\x1b[?2004l");
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool is_set_ = false;
};

// False at the end of input.
bool read_byte(char& byte) {
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n == 1) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    columns += c.code_point == '\n' ? 1 : std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(c.code_point)));
    i += c.n_bytes;
  }
  return columns;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
}  // namespace

size_t LineEditor::before(size_t cursor) const {
  while (cursor > 0 && is_continuation(text_[--cursor])) {
  }
  return cursor;
}

size_t LineEditor::after(size_t cursor) const {
  if (cursor < text_.size()) ++cursor;
  while (cursor < text_.size() && is_continuation(text_[cursor])) ++cursor;
  return cursor;
}

void LineEditor::insert(std::string_view bytes) {
  text_.insert(cursor_, bytes);
  cursor_ += bytes.size();
}

void LineEditor::erase(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineEditor::recall(int direction) {
  const auto wanted = static_cast<ptrdiff_t>(recalled_) + direction;
  if (wanted < 0 || wanted > static_cast<ptrdiff_t>(history_.size())) return;
  if (recalled_ == history_.size()) unsent_ = text_;
  recalled_ = static_cast<size_t>(wanted);
  text_ = recalled_ == history_.size() ? unsent_ : history_[recalled_];
  cursor_ = text_.size();
}

// One row of the terminal: the part of the line around the cursor that fits.
void LineEditor::draw() const {
  const int room = std::max(10, terminal_columns() - columns_of(prompt_) - 2);
  size_t begin = cursor_, end = cursor_;
  while (begin > 0 && columns_of(std::string_view(text_).substr(before(begin), cursor_ - before(begin))) <= room)
    begin = before(begin);
  while (end < text_.size() && columns_of(std::string_view(text_).substr(begin, after(end) - begin)) <= room)
    end = after(end);
  std::string shown;
  for (char c : std::string_view(text_).substr(begin, end - begin)) shown += c == '\n' ? "\u21b5" : std::string(1, c);
  const int column = columns_of(prompt_) + columns_of(std::string_view(text_).substr(begin, cursor_ - begin));
  talk(fmt::format("\r{}{}\x1b[K\r{}", prompt_, shown, column > 0 ? fmt::format("\x1b[{}C", column) : ""));
}

// After an escape: "[A", "[3~", "[200~", "OH" ...
void LineEditor::take_sequence() {
  char byte = 0;
  if (!read_byte(byte) || (byte != '[' && byte != 'O')) return;
  std::string sequence;
  do {
    if (!read_byte(byte)) return;
    sequence += byte;
  } while ((byte < 0x40 || byte > 0x7E) && sequence.size() < 16);
  if (sequence == "A") recall(-1);
  if (sequence == "B") recall(+1);
  if (sequence == "C") cursor_ = after(cursor_);
  if (sequence == "D") cursor_ = before(cursor_);
  if (sequence == "H" || sequence == "1~") cursor_ = 0;
  if (sequence == "F" || sequence == "4~") cursor_ = text_.size();
  if (sequence == "3~") erase(cursor_, after(cursor_));
  if (sequence == "200~") pasting_ = true;
  if (sequence == "201~") pasting_ = false;
}

LineEditor::Step LineEditor::take_control(char byte) {
  if (byte == kCtrlC && text_.empty()) return Step::interrupt;
  if (byte == kCtrlD && text_.empty()) return Step::end_of_input;
  if (byte == kCtrlC || byte == control('U')) erase(0, byte == kCtrlC ? text_.size() : cursor_);
  if (byte == kCtrlD) erase(cursor_, after(cursor_));
  if (byte == kDelete || byte == control('H')) erase(before(cursor_), cursor_);
  if (byte == control('A')) cursor_ = 0;
  if (byte == control('E')) cursor_ = text_.size();
  if (byte == control('B')) cursor_ = before(cursor_);
  if (byte == control('F')) cursor_ = after(cursor_);
  if (byte == control('K')) text_.resize(cursor_);
  if (byte == control('P')) recall(-1);
  if (byte == control('N')) recall(+1);
  if (byte == control('L')) talk("\x1b[H\x1b[2J");
  if (byte == control('W')) {
    size_t begin = cursor_;
    while (begin > 0 && text_[begin - 1] == ' ') --begin;
    while (begin > 0 && text_[begin - 1] != ' ') --begin;
    erase(begin, cursor_);
  }
  return Step::more;
}

LineEditor::Step LineEditor::take_byte(char byte) {
  if (byte == kEscape) return take_sequence(), Step::more;
  if (byte == '\r' || byte == '\n') {
    if (!pasting_) return Step::line;
    insert("\n");
  } else if (byte == '\t') {
    insert("    ");
  } else if ((byte >= 0 && byte < 0x20) || byte == kDelete) {
    return take_control(byte);
  } else {
    insert({&byte, 1});
  }
  return Step::more;
}

LineEditor::End LineEditor::read(std::string_view prompt, std::string& line) {
  const RawTerminal raw;
  prompt_ = prompt;
  text_.clear();
  cursor_ = 0;
  pasting_ = false;
  recalled_ = history_.size();
  Step step = Step::more;
  while (step == Step::more) {
    if (incomplete_utf8_suffix(text_.substr(0, cursor_)) == 0) draw();
    char byte = 0;
    step = read_byte(byte) ? take_byte(byte) : Step::end_of_input;
  }
  if (step == Step::interrupt) return talk("^C\n"), End::interrupt;
  cursor_ = text_.size();
  draw();
  talk("\n");
  if (step == Step::end_of_input) return End::end_of_input;
  line = replace_invalid_utf8(text_);
  if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
  return End::line;
}

}  // namespace tokamak::cli
