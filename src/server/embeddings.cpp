// POST /v1/embeddings and the native POST /embedding.
//
// Documented rules: an empty text is refused; `dimensions` keeps the first numbers of a vector and scales what is left;
// without `embd_normalize` vectors have length 1, rows of single tokens (pooling none) stay as they are.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <numeric>

#include "server/dialect.h"
#include "server/embeddings_batch.h"
#include "server/embeddings_pooling.h"
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {
constexpr size_t kMaxInputs = 2048;                // of one request, as in OpenAI's API
constexpr int64_t kMaxNumbers = int64_t{1} << 24;  // of one answer

struct Format {
  bool is_native = false;
  bool base64 = false;
  int64_t dimensions = 0;  // 0: all
  int64_t norm = 2;
  std::string model;
};

Result<std::vector<int32_t>> read_text(const Json& json, const std::string& field, const Tokenizer& tokenizer) {
  if (json.is_string() && json.get_ref<const std::string&>().empty()) return bad_field(field, "is empty");
  return read_one_prompt(json, field, tokenizer);
}

// A text, token ids, or a list of these.
Result<EmbeddingInputs> read_inputs(const Fields& fields, const Tokenizer& tokenizer) {
  const std::string name = fields.has("input") ? "input" : "content";
  const Json* json = fields.find(name);
  if (!json) return bad_field("input", "is missing");
  if (!json->is_string() && !json->is_array()) return bad_field(name, "must be a text, token ids or a list of these");
  EmbeddingInputs inputs{.client = fields.text("user", "")};
  const bool is_list = json->is_array() && !json->empty() && !json->front().is_number();
  if (!is_list) {
    inputs.tokens.push_back(TRY(read_text(*json, name, tokenizer)));
    inputs.fields.push_back(name);
    return inputs;
  }
  if (json->size() > kMaxInputs) return bad_field(name, fmt::format("has more than {} entries", kMaxInputs));
  for (size_t i = 0; i < json->size(); ++i) {
    inputs.fields.push_back(fmt::format("{}[{}]", name, i));
    if ((*json)[i].is_number())
      return bad_field(inputs.fields[i], "must be a text or a list of token ids, as before it");
    inputs.tokens.push_back(TRY(read_text((*json)[i], inputs.fields[i], tokenizer)));
  }
  return inputs;
}

Result<Format> read_format(const Fields& fields, Pooling pooling, bool is_native, const ServerContext& context) {
  Format format{.is_native = is_native, .model = fields.text("model", context.model_name)};
  const std::string encoding = fields.text("encoding_format", "float");
  if (encoding != "float" && encoding != "base64") return bad_field("encoding_format", "must be float or base64");
  format.base64 = encoding == "base64";
  format.dimensions = fields.integer("dimensions", 0);
  if (format.dimensions > context.model.hparams().n_embd)
    return bad_field("dimensions",
                     fmt::format("{} is more than the model's {}", format.dimensions, context.model.hparams().n_embd));
  format.norm = fields.integer("embd_normalize", pooling == Pooling::none ? -1 : 2);
  return format;
}

void append_base64(std::string& out, std::span<const float> vector) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static_assert(std::endian::native == std::endian::little, "the format is little-endian");
  const auto bytes = std::as_bytes(vector);
  const auto byte = [&](size_t i) { return i < bytes.size() ? std::to_integer<uint32_t>(bytes[i]) : 0; };
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
}

// The shortest numbers that read back as the same floats.
void append_vector(std::string& out, std::span<const float> vector, bool base64) {
  out += base64 ? '"' : '[';
  if (base64) {
    append_base64(out, vector);
  } else {
    for (size_t i = 0; i < vector.size(); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}", i > 0 ? "," : "", vector[i]);
  }
  out += base64 ? '"' : ']';
}

Result<std::string> embedding_text(EmbeddingEvent event, const Format& format) {
  const auto n_kept = static_cast<size_t>(format.dimensions > 0 ? format.dimensions : event.n_embd);
  std::string out;
  for (int64_t i = 0; i < event.n_rows; ++i) {
    const auto row = std::span(event.values).subspan(static_cast<size_t>(i * event.n_embd), n_kept);
    normalize(row, format.norm);
    for (const float x : row)
      if (!std::isfinite(x)) return Error{.code = ErrorCode::device_failed, .what = "the model made no finite vector"};
    if (i > 0) out += ',';
    append_vector(out, row, format.base64);
  }
  return format.is_native ? '[' + out + ']' : out;
}

Result<std::string> body(std::vector<EmbeddingEvent> events, int64_t n_tokens, const Format& format) {
  std::string list;
  for (size_t i = 0; i < events.size(); ++i) {
    list += fmt::format("{}{{{}\"index\":{},\"embedding\":", i > 0 ? "," : "",
                        format.is_native ? "" : "\"object\":\"embedding\",", i);
    list += TRY(embedding_text(std::move(events[i]), format));
    list += '}';
  }
  if (format.is_native) return '[' + list + ']';
  const Json usage = {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}};
  return fmt::format(R"({{"object":"list","data":[{}],"model":{},"usage":{}}})", list, dump(format.model), dump(usage));
}

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context, bool is_native) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kEmbeddings));
  const Pooling pooling = TRY(choose_pooling(fields.text("pooling", "auto"), context));
  if (pooling == Pooling::rank) return bad_field("pooling", "this model ranks documents: use /v1/rerank");
  if (pooling == Pooling::none && !is_native)
    return bad_field("pooling", "none makes one vector per token, which only /embedding can answer");
  const Format format = TRY(read_format(fields, pooling, is_native, context));
  EmbeddingInputs inputs = TRY(read_inputs(fields, context.tokenizer()));
  inputs.mode = embedding_mode(pooling);
  int64_t n_tokens = 0;
  for (const auto& tokens : inputs.tokens) n_tokens += static_cast<int64_t>(tokens.size());
  const int64_t n_rows = pooling == Pooling::none ? n_tokens : static_cast<int64_t>(inputs.tokens.size());
  if (n_rows > kMaxNumbers / context.model.hparams().n_embd)
    return bad_field("input", fmt::format("asks for {} vectors, one answer has at most {}", n_rows,
                                          kMaxNumbers / context.model.hparams().n_embd));
  embed(exchange, context, std::move(inputs),
        [exchange, &context, format, n_tokens](Result<std::vector<EmbeddingEvent>> events) {
          auto text = events ? body(*std::move(events), n_tokens, format) : Result<std::string>(events.error());
          if (text) return exchange->respond({.body = *std::move(text)});
          respond_error(*exchange, context, Dialect::openai, text.error());
        });
  return {};
}

}  // namespace

void embeddings(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context, false); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}
void native_embedding(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context, true); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}

}  // namespace tokamak::server
