// The parser behind CallParser, as coroutines that read the text piece by piece. Internal to the folder.
// GCC 12 miscompiles co_await inside && || and arguments of calls in loop conditions: each stands alone here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call_parser.h"
#include "chat/call_task.h"

namespace tokamak {

// Tasks return false, texts nothing, where the text is no call.
class CallReader {
 public:
  CallReader(const CallFormat& format, const ParameterTypes& types);

  void push(std::string_view text, std::vector<CallEvent>& events);
  void finish(std::vector<CallEvent>& events);
  bool done() const { return task_.is_over(); }
  std::string_view raw() const { return raw_; }
  std::string_view rest() const { return rest_; }

 private:
  using Task = CallTask<bool>;
  using Text = CallTask<std::optional<std::string>>;
  using Path = std::vector<std::string>;  // as in ParameterTypes::at

  // call_reader.cpp
  void settle();
  void begin();
  void add(std::string_view text);
  void skip();  // a byte of an argument
  Task space();
  Task exactly(std::string_view text);
  Task literal(std::string_view text, bool before_text = false);
  Task is_next(std::string_view text);
  Task digits();
  Text word(std::string_view stops);
  Task section();
  Task closes_section();
  Task goes_on();
  Task one_call();
  Task one_piece(size_t piece_idx);
  Task arguments();
  bool knows_name() const;

  // call_json.cpp
  Text json_string(size_t max_bytes);
  Task json_value(std::string* out, size_t max_bytes);
  Task json_arguments();
  Task json_call(int level);
  Task json_member(std::string key, int level);
  Task whole_json_call();

  // call_values.cpp
  Task parameters();
  Task parameter(std::string_view key, bool is_first);
  Task parameter_middle(std::string_view key, bool& is_text, bool& is_value);
  Task parameter_value(std::string_view end, bool is_text, bool is_value);
  void add_cut_value(std::string_view held, std::string_view close, bool is_text);
  Task assignments(char assign, char close);
  Task assignment(char assign, bool is_first);
  Text loose_key(char assign);
  Text quoted();
  Task value(std::string& out, int depth);
  Task list(std::string& out, char close, int depth);
  Task dict(std::string& out, int depth);
  Task item_end(char close);
  Text python_string();
  Text escape();

  // call_nested.cpp
  Text text_until(std::string_view close);
  Task begins_container(std::string_view close, const ParameterPlace& place);
  Task nested_value(std::string& out, std::string close, Path& path);
  Task container(std::string& out, std::string close, Path& path, ParameterPlace place);
  Text raw_string();
  Task ends_raw_string();
  Task is_word_before(char sign);

  const CallFormat& format_;
  const ParameterTypes& types_;
  CallInput in_;
  std::vector<CallEvent>* events_ = nullptr;
  std::string raw_, rest_;
  bool settled_ = false;
  bool is_bare_ = false;  // nothing but its shape tells a call from content
  // Of the call under way.
  std::string name_, id_, waiting_arguments_;
  bool has_begun_ = false;
  int n_calls_ = 0;  // whole ones
  Task task_;        // last: it refers to all the others
};

// One whole JSON value with nothing around it?
bool is_json(std::string_view text);
// As a JSON string, without and with its quotes.
void append_json_text(std::string& out, std::string_view text);
std::string json_text(std::string_view text);
// JSON of a bare text: what it looks like, or a text; `is_value`: of what is no plain text.
std::string bare_value(std::string_view text, bool is_value);

}  // namespace tokamak
