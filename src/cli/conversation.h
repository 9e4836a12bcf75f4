// Messages and the KV cache that goes with them: each answer computes only what the cache does not hold yet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "chat/chat_template.h"
#include "engine/generate.h"

namespace tokamak::cli {

struct Answer {
  std::string text, reasoning;
  size_t n_lost_bytes = 0;  // of the prompt, by Tokenizer::encode
  GenerateResult result;
};

using OutputCallback = std::function<bool(const OutputEvent& event)>;

class Conversation {
 public:
  // Without a template the messages' texts follow each other as they stand. The session must outlive this.
  Conversation(Session& session, std::optional<ChatTemplate> chat_template, GenerateOptions options,
               bool show_progress);

  // Adds the user's message and the model's answer. After an error the messages are as before.
  // Bytes of the prompt that have no token are noted on standard error, once per conversation.
  // Errors: those of generate() and ChatTemplate::render; cancelled when Ctrl-C came before the first token.
  Result<Answer> answer(std::string text, const OutputCallback& output);
  // Replaces the last answer, with other random numbers. Errors: bad_argument when there is none.
  Result<Answer> answer_again(const OutputCallback& output);

  // Empty: no system message. Keeps the rest.
  void set_system(std::string text);
  // Forgets all but the system message.
  void clear();

  const std::vector<ChatMessage>& messages() const { return messages_; }
  bool has_template() const { return chat_template_.has_value(); }
  int64_t n_cached() const { return static_cast<int64_t>(cached_.size()); }

 private:
  Result<std::string> render() const;
  Result<Answer> complete(const OutputCallback& output);
  Result<GenerateResult> generate_from(const std::vector<int32_t>& prompt, const GenerateOptions& options,
                                       const OutputCallback& output);
  bool has_system() const { return !messages_.empty() && messages_[0].role == "system"; }

  Session& session_;
  std::optional<ChatTemplate> chat_template_;
  GenerateOptions options_;
  bool show_progress_;
  int32_t seq_id_;
  std::vector<ChatMessage> messages_;
  std::vector<int32_t> cached_;  // the tokens of the sequence
  bool has_warned_ = false;      // of lost bytes
};

// What --raw, --chat-template and the model's own template amount to; none: complete texts as they stand, which is
// noted on standard error unless --raw asked for it. Errors: bad_template, not_found.
Result<std::optional<ChatTemplate>> choose_template(const SettingValues& values, const Model& model);

// Sampling, length and stop settings.
Result<GenerateOptions> generate_options(const SettingValues& values);

const std::string& message_text(const ChatMessage& message);

}  // namespace tokamak::cli
