// An answer on its way to a client: thoughts, content and tool calls, told apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call_parser.h"
#include "chat/reply_format.h"
#include "engine/output/output_machine.h"
#include "tokenizer/tokenizer.h"

namespace tokamak::server {

struct ReplyDelta {
  enum class Kind : uint8_t { reasoning, content, call, arguments } kind;
  int call = -1;         // index of the call, from 0; otherwise -1
  std::string id, name;  // kind call
  std::string text;      // what is new; valid UTF-8

  bool operator==(const ReplyDelta&) const = default;
};

// One per answer. All `arguments` of a call joined are the JSON text of an object, or its beginning when the answer was
// cut. What is no call after all comes as content, as it was written. White space between content and calls is dropped.
// A call whose text goes wrong behind its name keeps the arguments so far; the rest is content.
class ReplyParser {
 public:
  // `max_calls` > 0: further calls are dropped. `tools` (OpenAI's form): their schemas tell 5 from "5" where a format
  // writes both alike. `format` is copied.
  ReplyParser(const ReplyFormat& format, bool wants_calls, int max_calls, const std::vector<Json>& tools = {});
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  // The events of an OutputMachine with what set_reply_output() says. The same text gives the same deltas for any
  // events, once neighbours of one kind are joined.
  std::vector<ReplyDelta> push(const std::vector<OutputEvent>& events);
  // The end of the answer: what was held back.
  std::vector<ReplyDelta> finish();
  int n_calls() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Tags of thoughts, whether the prompt has opened one, and markers of calls. A marker has no end: ReplyParser finds it,
// so that what looks like an end inside an argument is none. Stops are left as they are.
void set_reply_output(const ReplyFormat& format, bool wants_calls, std::string_view prompt, OutputOptions& output);

// Control tokens whose text belongs to the format, sorted: for GenerationRequest::kept_tokens. Walks the vocabulary.
std::vector<int32_t> reply_tokens(const ReplyFormat& format, const Tokenizer& tokenizer);

}  // namespace tokamak::server
