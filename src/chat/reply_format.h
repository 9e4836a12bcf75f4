// What a model writes in an answer: thoughts and tool calls. Found by rendering its template with probe conversations
// and comparing the prompts; formats that no comparison can show are recognised by their markers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace tokamak {

// How the name and the arguments of a call are written.
enum class CallSyntax : uint8_t {
  json,        // {"name": "f", "arguments": {"k": "v"}}, in any order of keys
  named_json,  // the name between markers, then {"k": "v"}
  parameters,  // the name between markers, then every parameter between markers of its own; texts are not quoted
  python,      // f(k="v", n=1)
  loose,       // f{k:QvQ,n:1}: keys are bare, texts stand between quotes Q
};

// One piece of a call as the template spells it.
struct CallPiece {
  enum class Kind : uint8_t { text, name, id, index, arguments } kind = Kind::text;  // index: digits
  std::string text = {};                                                             // kind text
  bool operator==(const CallPiece&) const = default;
};

struct CallFormat {
  CallSyntax syntax = CallSyntax::json;
  // All calls of an answer: section_open call (separator call)* section_close. White space inside is not significant
  // where models write it, but for texts of parameters.
  std::string section_open, separator, section_close;
  std::vector<CallPiece> call;
  bool one_call = false;      // the template takes one call in an answer
  bool short_ids = false;     // ids are nine letters or digits
  bool id_is_name = false;    // the id stands for the name: functions.NAME:0
  std::string optional_open;  // may stand in front of the first call
  std::string turn_end;       // may stand behind the last one: how a turn with calls ends

  // syntax json: names of the keys.
  std::string name_key = "name", arguments_key = "arguments", id_key;

  // syntax parameters and loose: parameter_open key parameter_middle text parameter_close, separated. Where the close
  // repeats the key, kKeyMark stands for it.
  static constexpr char kKeyMark = '\x01';
  std::string parameter_open, parameter_middle, parameter_close, parameter_separator;
  std::string json_middle;  // instead of parameter_middle before values that are no texts; empty: the same
  std::string quote;        // syntax loose

  // Syntax parameters, each empty where the format has no such thing.
  std::string text_open, text_close;  // stand around texts that look like markup: <![CDATA[ ]]>
  std::string item_key;  // lists and objects are parameters inside the parameter; elements of lists have this key

  // Syntax python: the quote of texts in which nothing is escaped; empty: texts are Python's.
  std::string raw_quote;

  // The text that tells a call from content. Empty: nothing does; a call is then an answer that begins like one.
  std::string marker() const;
};

// The text that ends a parameter of this name.
std::string parameter_close(const CallFormat& format, std::string_view key);

// Formats in which the headers of messages say what is content and what is a call.
enum class MessageFormat : uint8_t {
  none,
  harmony,    // <|channel|>analysis<|message|>...<|end|><|start|>assistant to=functions.f<|channel|>... (gpt-oss)
  recipient,  // messages go to a tool, to `content_recipient` or to `reasoning_recipient`; CallFormat::separator stands
              // between (functionary, Muse)
};

struct ReplyFormat {
  std::string reasoning_start, reasoning_end;  // both empty: no thoughts
  std::optional<CallFormat> calls;             // none: the template shows no calls
  MessageFormat messages = MessageFormat::none;
  // messages recipient: a header is recipient_start RECIPIENT recipient_end, the start of later ones being part of the
  // separator.
  std::string recipient_start, recipient_end;          // "" and "\n"; " to=" and "<|message|>"
  std::string content_recipient, reasoning_recipient;  // "all" and none; "user" and "self"
  std::string found_by;                                // "derived" or the name of the handler; for reports
};

// Never fails: what cannot be found is left out.
ReplyFormat find_reply_format(const ChatTemplate& chat_template);

}  // namespace tokamak
