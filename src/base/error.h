// What can go wrong for reasons outside the program, and what a caller or user is told about it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tokamak {

enum class ErrorCode : uint8_t {
  bad_argument,
  not_found,
  io_failed,
  no_space,
  bad_file,
  bad_tensor,
  bad_metadata,
  bad_vocab,
  bad_template,
  template_refused,
  unsupported,
  context_full,
  out_of_memory,
  device_failed,
  no_token_left,
  cancelled,
  queue_full,
  shutting_down,
  time_out,
  count_,  // number of codes, not a code
};

struct ErrorRow {
  ErrorCode code;
  std::string_view name;     // stable, printed in --json output and HTTP bodies
  std::string_view meaning;  // one sentence for the docs
  int exit_status;           // of the command line
  int http_status;
};

// One row per code, in enum order. Exit status 1 is kept for "a check the user asked for failed".
inline constexpr auto kErrors = std::to_array<ErrorRow>({
    {ErrorCode::bad_argument, "bad_argument", "A flag, field or parameter has a wrong name or value.", 2, 400},
    {ErrorCode::not_found, "not_found", "A named file, model or id does not exist.", 3, 404},
    {ErrorCode::io_failed, "io_failed", "The operating system failed a read or a write.", 4, 500},
    {ErrorCode::no_space, "no_space", "The disk is full; what was there before is unchanged.", 4, 507},
    {ErrorCode::bad_file, "bad_file", "A file is damaged, truncated or not of the expected format.", 5, 422},
    {ErrorCode::bad_tensor, "bad_tensor", "A tensor's shape, type or place in the file is impossible.", 5, 422},
    {ErrorCode::bad_metadata, "bad_metadata", "A metadata key is missing, malformed or out of range.", 5, 422},
    {ErrorCode::bad_vocab, "bad_vocab", "The tokenizer's tables contradict themselves.", 5, 422},
    {ErrorCode::bad_template, "bad_template", "A chat template cannot be parsed or fails while rendering.", 6, 400},
    {ErrorCode::template_refused, "template_refused", "The chat template itself refused the messages.", 6, 400},
    {ErrorCode::unsupported, "unsupported", "The format, model family or feature is not supported.", 7, 400},
    {ErrorCode::context_full, "context_full", "The prompt does not fit into the context.", 8, 400},
    {ErrorCode::out_of_memory, "out_of_memory", "The memory that was asked for cannot be reserved.", 9, 507},
    {ErrorCode::device_failed, "device_failed", "A device is missing or failed.", 10, 500},
    {ErrorCode::no_token_left, "no_token_left", "Biases and filters forbid every token.", 11, 400},
    {ErrorCode::cancelled, "cancelled", "The caller cancelled the work.", 130, 499},
    {ErrorCode::queue_full, "queue_full", "Too many requests are waiting; come back later.", 12, 429},
    {ErrorCode::shutting_down, "shutting_down", "The server is finishing its work and takes no more.", 13, 503},
    {ErrorCode::time_out, "time_out", "Work made no progress for too long.", 14, 504},
});

constexpr bool error_table_matches_enum() {
  if (kErrors.size() != static_cast<size_t>(ErrorCode::count_)) return false;
  for (size_t i = 0; i < kErrors.size(); ++i)
    if (static_cast<size_t>(kErrors[i].code) != i) return false;
  return true;
}
static_assert(error_table_matches_enum());

constexpr const ErrorRow& error_row(ErrorCode code) { return kErrors[static_cast<size_t>(code)]; }

// One failure: `what` went wrong, `where` (file, tensor, key, line ...), and a `hint` on what to do.
// what and where are fragments without a final period; hint may be empty.
struct Error {
  ErrorCode code = ErrorCode::bad_argument;
  std::string what;
  std::string where;
  std::string hint;

  // "where: what (hint)" on one line, control characters and invalid UTF-8 escaped, at most about 1000 bytes.
  std::string message() const;
};

}  // namespace tokamak
