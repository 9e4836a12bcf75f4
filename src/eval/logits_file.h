// Logits of a model over a text, kept so that other forms of the model can be compared with it.
//
// Layout, little-endian, no gaps:
//   char magic[8]      "TKLOGITS"
//   u32  version       1
//   u32  type          LogitsType: 0 f32, 1 u16
//   u32  n_vocab, n_ctx, n_chunks, reserved (0)
//   u64  vocab_hash    of the vocabulary, see hash_vocabulary
//   i32  tokens[n_chunks][n_ctx]                     as the model got them
//   row  rows[n_chunks][n_scored(n_ctx)]             the positions that are scored, in order
// A row is f64 nll, f32 lowest, f32 step, i32 top, i32 reserved (0), then the codes [n_vocab], f32 or u16:
//   nll    -ln of the probability of the token that follows, from the exact logits; >= 0
//   top    the most probable token, from the exact logits
//   logit  code (f32), or lowest + step * code (u16; lowest and step span the row, so the error is step / 2, below
//          1e-3 for the usual span of 60)
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/result.h"
#include "eval/text_chunks.h"
#include "tokenizer/tokenizer.h"

namespace tokamak {

enum class LogitsType : uint32_t { f32 = 0, u16 = 1 };

// The first half of a chunk is context only; the token after each later one is scored.
constexpr int64_t first_scored(int64_t n_ctx) { return n_ctx / 2; }
constexpr int64_t n_scored(int64_t n_ctx) { return n_ctx - 1 - first_scored(n_ctx); }

// FNV-1a over kind, size and all token texts.
uint64_t hash_vocabulary(const Tokenizer& tokenizer);

struct LogitsHeader {
  LogitsType type = LogitsType::u16;
  int64_t n_vocab = 0;
  uint64_t vocab_hash = 0;
  TextChunks chunks;

  uint64_t row_bytes() const;
};

// What a row says besides its codes.
struct LogitsRow {
  double nll = 0;
  int32_t top = 0;
};

// out[header.row_bytes()]. The logits are finite. Thread-safe.
void encode_logits(const LogitsHeader& header, const LogitsRow& row, std::span<const float> logits, std::byte* out);

// Appears whole at commit(). Errors: those of OutputFile.
class LogitsWriter {
 public:
  static Result<LogitsWriter> create(const std::filesystem::path& path, LogitsHeader header);
  const LogitsHeader& header() const { return header_; }
  // Whole rows, in order.
  Result<void> write(std::span<const std::byte> rows) { return file_.write(rows); }
  Result<void> commit() { return file_.commit(); }

 private:
  LogitsWriter(OutputFile file, LogitsHeader header) : file_(std::move(file)), header_(std::move(header)) {}
  OutputFile file_;
  LogitsHeader header_;
};

class LogitsFile {
 public:
  // Errors: those of MappedFile::open; bad_file (not such a file, damaged, truncated), naming the path.
  static Result<LogitsFile> open(const std::filesystem::path& path);
  // The same for bytes in memory, which must outlive the result.
  static Result<LogitsFile> parse(std::span<const std::byte> bytes, const std::filesystem::path& name);
  const LogitsHeader& header() const { return header_; }

  // logits[n_vocab] of scored position `row_idx` of a chunk. Errors: bad_file (a damaged row). Thread-safe.
  Result<LogitsRow> read(int64_t chunk_idx, int64_t row_idx, std::span<float> logits) const;
  // The rows of a chunk may leave memory.
  void forget(int64_t chunk_idx) const;

  // Whether the file is of this vocabulary. Errors: bad_argument.
  Result<void> check_vocabulary(const Tokenizer& tokenizer, int64_t n_vocab) const;
  // Whether the file's chunks begin those of the text. Errors: bad_argument.
  Result<void> check_text(const TextChunks& text) const;

 private:
  LogitsFile(std::span<const std::byte> bytes, LogitsHeader header, std::filesystem::path path)
      : bytes_(bytes), header_(std::move(header)), path_(std::move(path)) {}
  Error mismatch(std::string what, std::string hint) const;
  std::span<const std::byte> rows(int64_t first_row, int64_t n_rows) const;

  std::span<const std::byte> bytes_;
  MappedFile file_;  // holds the bytes; empty for parse()
  LogitsHeader header_;
  std::filesystem::path path_;
};

}  // namespace tokamak
