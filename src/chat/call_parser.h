// Reads tool calls while a model writes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/parameter_types.h"
#include "chat/reply_format.h"

namespace tokamak {

class CallReader;

struct CallEvent {
  bool begins = false;   // a call begins: id and name are set, text is empty
  std::string id, name;  // id: empty where the format writes none in front of the arguments
  std::string text;      // otherwise: more of the JSON text of its arguments

  bool operator==(const CallEvent&) const = default;
};

// Takes the text of one section, or of one call where calls stand alone, from its opening marker on, in any pieces.
// The same text gives the same events for any pieces, once texts are joined. Total on any text: what is no call is
// handed back. Arguments of JSON syntax are passed on as they come, others parameter by parameter; all texts of a call
// joined are a JSON object, or the beginning of one when its text was cut. Memory is bounded by kMaxHeld and
// kMaxParameter.
class CallParser {
 public:
  // Most bytes held back before a call has begun, of a name, and of one parameter whose end must be known.
  static constexpr size_t kMaxHeld = 65536, kMaxName = 256, kMaxParameter = size_t{8} << 20;

  // `format` and `types` must outlive the parser.
  CallParser(const CallFormat& format, const ParameterTypes& types);
  ~CallParser();
  CallParser(CallParser&&) noexcept;
  CallParser& operator=(CallParser&&) noexcept;

  // `text` is whole characters.
  void push(std::string_view text, std::vector<CallEvent>& events);
  // No more text comes. done() from here on.
  void finish(std::vector<CallEvent>& events);

  // Nothing that comes belongs to a call any more.
  bool done() const;
  // Once done(): what was read but is no call, to be shown as it is; and what was not read at all.
  std::string_view raw() const;
  std::string_view rest() const;

 private:
  std::unique_ptr<CallReader> reader_;
};

}  // namespace tokamak
