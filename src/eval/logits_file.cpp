#include "eval/logits_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "arch/hparams.h"
#include "base/fnv1a.h"

namespace tokamak {

namespace {
constexpr char kMagic[8] = {'T', 'K', 'L', 'O', 'G', 'I', 'T', 'S'};
constexpr uint32_t kVersion = 1, kMaxCode = UINT16_MAX;
constexpr uint32_t kMaxChunks = 1u << 24;

struct FileHeader {
  char magic[8];
  uint32_t version, type, n_vocab, n_ctx, n_chunks, reserved;
  uint64_t vocab_hash;
};
static_assert(sizeof(FileHeader) == 40);

struct RowHeader {
  double nll;
  float lowest, step;
  int32_t top, reserved;
};
static_assert(sizeof(RowHeader) == 24);

uint64_t rows_begin(const LogitsHeader& header) {
  return sizeof(FileHeader) + header.chunks.tokens.size() * sizeof(int32_t);
}

uint64_t code_bytes(LogitsType type) { return type == LogitsType::f32 ? sizeof(float) : sizeof(uint16_t); }

Error bad_file(const std::filesystem::path& path, std::string what) {
  return Error{.code = ErrorCode::bad_file,
               .what = std::move(what),
               .where = path.string(),
               .hint = "make it again with `tokamak eval MODEL -f TEXT --save-logits FILE`"};
}

// What stands in front of the tokens, checked against the file's size; the tokens are not read yet.
Result<FileHeader> read_header(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  FileHeader header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return bad_file(path, "this is no file of saved logits");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion)
    return bad_file(path, fmt::format("version {} of saved logits is not known", header.version));
  const bool is_sane = header.type <= static_cast<uint32_t>(LogitsType::u16) && header.n_vocab >= 1 &&
                       header.n_vocab <= arch::kMaxVocab && header.n_ctx >= kMinChunkTokens &&
                       header.n_ctx <= arch::kMaxContext && header.n_chunks >= 1 && header.n_chunks <= kMaxChunks;
  if (!is_sane) return bad_file(path, "the sizes in its header are impossible");
  return header;
}
}  // namespace

uint64_t hash_vocabulary(const Tokenizer& tokenizer) {
  Fnv1a hash;
  hash.add(static_cast<uint64_t>(tokenizer.kind()));
  hash.add(static_cast<uint64_t>(tokenizer.n_vocab()));
  if (tokenizer.kind() == TokenizerKind::none) return hash.value();
  for (int32_t id = 0; id < tokenizer.n_vocab(); ++id) {
    hash.add(tokenizer.token_text(id).size());
    hash.add(tokenizer.token_text(id));
  }
  return hash.value();
}

uint64_t LogitsHeader::row_bytes() const {
  return sizeof(RowHeader) + static_cast<uint64_t>(n_vocab) * code_bytes(type);
}

void encode_logits(const LogitsHeader& header, const LogitsRow& row, std::span<const float> logits, std::byte* out) {
  RowHeader head{.nll = row.nll, .lowest = 0, .step = 1, .top = row.top, .reserved = 0};
  std::byte* codes = out + sizeof head;
  if (header.type == LogitsType::f32) {
    std::memcpy(codes, logits.data(), logits.size_bytes());
  } else {
    const auto [lowest, highest] = std::ranges::minmax(logits);
    head.lowest = lowest;
    head.step = (highest - lowest) / static_cast<float>(kMaxCode);
    const float per_step = head.step > std::numeric_limits<float>::min() ? 1 / head.step : 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const float code = std::min((logits[i] - lowest) * per_step + 0.5f, static_cast<float>(kMaxCode));
      const auto rounded = static_cast<uint16_t>(code);
      std::memcpy(codes + i * sizeof rounded, &rounded, sizeof rounded);
    }
  }
  std::memcpy(out, &head, sizeof head);
}

Result<LogitsWriter> LogitsWriter::create(const std::filesystem::path& path, LogitsHeader header) {
  FileHeader head{.version = kVersion,
                  .type = static_cast<uint32_t>(header.type),
                  .n_vocab = static_cast<uint32_t>(header.n_vocab),
                  .n_ctx = static_cast<uint32_t>(header.chunks.n_ctx),
                  .n_chunks = static_cast<uint32_t>(header.chunks.n_chunks()),
                  .vocab_hash = header.vocab_hash};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  LogitsWriter writer(TRY(OutputFile::create(path)), std::move(header));
  TRY(writer.write(std::as_bytes(std::span(&head, 1))));
  TRY(writer.write(std::as_bytes(std::span(writer.header_.chunks.tokens))));
  return writer;
}

Result<LogitsFile> LogitsFile::open(const std::filesystem::path& path) {
  MappedFile file = TRY(MappedFile::open(path));
  LogitsFile out = TRY(parse(file.bytes(), path));
  out.file_ = std::move(file);
  return out;
}

Result<LogitsFile> LogitsFile::parse(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const FileHeader head = TRY(read_header(bytes, path));
  LogitsHeader header{.type = LogitsType{head.type}, .n_vocab = head.n_vocab, .vocab_hash = head.vocab_hash};
  header.chunks.n_ctx = head.n_ctx;
  // No overflow: n_chunks <= 2^24, n_ctx <= 2^30; rows are compared by division.
  const uint64_t n_tokens = uint64_t{head.n_chunks} * head.n_ctx;
  const uint64_t n_rows = uint64_t{head.n_chunks} * static_cast<uint64_t>(n_scored(head.n_ctx));
  const uint64_t n_left = bytes.size() - sizeof head;
  if (n_left / sizeof(int32_t) < n_tokens) return bad_file(path, "the file ends inside its tokens: it is truncated");
  const uint64_t n_row_bytes = n_left - n_tokens * sizeof(int32_t);
  if (n_row_bytes % header.row_bytes() != 0 || n_row_bytes / header.row_bytes() != n_rows)
    return bad_file(
        path, fmt::format("its {} bytes are not those of {} rows: it is truncated or damaged", bytes.size(), n_rows));
  header.chunks.tokens.resize(n_tokens);
  std::memcpy(header.chunks.tokens.data(), bytes.data() + sizeof head, n_tokens * sizeof(int32_t));
  for (int32_t token : header.chunks.tokens)
    if (token < 0 || token >= header.n_vocab) return bad_file(path, fmt::format("token {} is impossible", token));
  return LogitsFile(bytes, std::move(header), path);
}

std::span<const std::byte> LogitsFile::rows(int64_t first_row, int64_t n_rows) const {
  const uint64_t n_bytes = header_.row_bytes();
  return bytes_.subspan(rows_begin(header_) + static_cast<uint64_t>(first_row) * n_bytes,
                        static_cast<uint64_t>(n_rows) * n_bytes);
}

Result<LogitsRow> LogitsFile::read(int64_t chunk_idx, int64_t row_idx, std::span<float> logits) const {
  const std::byte* bytes = rows(chunk_idx * n_scored(header_.chunks.n_ctx) + row_idx, 1).data();
  RowHeader head{};
  std::memcpy(&head, bytes, sizeof head);
  const std::byte* codes = bytes + sizeof head;
  bool is_finite = std::isfinite(head.nll) && head.nll >= 0 && std::isfinite(head.lowest) &&
                   std::isfinite(head.lowest + head.step * static_cast<float>(kMaxCode));
  if (header_.type == LogitsType::f32) {
    std::memcpy(logits.data(), codes, logits.size_bytes());
    is_finite = is_finite && std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  } else {
    for (size_t i = 0; i < logits.size(); ++i) {
      uint16_t code = 0;
      std::memcpy(&code, codes + i * sizeof code, sizeof code);
      logits[i] = head.lowest + head.step * static_cast<float>(code);
    }
  }
  if (!is_finite || head.top < 0 || head.top >= header_.n_vocab)
    return bad_file(path_, fmt::format("row {} of chunk {} holds impossible numbers", row_idx, chunk_idx));
  return LogitsRow{.nll = head.nll, .top = head.top};
}

void LogitsFile::forget(int64_t chunk_idx) const {
  const int64_t n_rows = n_scored(header_.chunks.n_ctx);
  file_.forget(rows(chunk_idx * n_rows, n_rows));
}

Error LogitsFile::mismatch(std::string what, std::string hint) const {
  return Error{
      .code = ErrorCode::bad_argument, .what = std::move(what), .where = path_.string(), .hint = std::move(hint)};
}

Result<void> LogitsFile::check_vocabulary(const Tokenizer& tokenizer, int64_t n_vocab) const {
  if (n_vocab != header_.n_vocab)
    return mismatch(
        fmt::format("these logits are of a model with {} tokens; this one has {}", header_.n_vocab, n_vocab),
        "compare forms of the same model");
  if (hash_vocabulary(tokenizer) != header_.vocab_hash)
    return mismatch("these logits are of a model with another vocabulary", "compare forms of the same model");
  return {};
}

Result<void> LogitsFile::check_text(const TextChunks& text) const {
  const std::string hint = "leave --file out: the saved logits bring their text";
  const TextChunks& own = header_.chunks;
  if (text.n_ctx != own.n_ctx)
    return mismatch(fmt::format("these logits are of chunks of {} tokens, not {}", own.n_ctx, text.n_ctx), hint);
  const auto [mine, theirs] = std::ranges::mismatch(own.tokens, text.tokens);
  if (mine == own.tokens.end()) return {};
  if (theirs == text.tokens.end()) return mismatch("these logits are of a longer text", hint);
  return mismatch(fmt::format("these logits are of another text: it differs in token {} of chunk {}",
                              (mine - own.tokens.begin()) % own.n_ctx, (mine - own.tokens.begin()) / own.n_ctx),
                  hint);
}

}  // namespace tokamak
