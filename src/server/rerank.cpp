// POST /v1/rerank: how well documents answer a query.
//
// method "model" (the default) needs a model with a head for it. method "embedding" compares pooled embeddings of query
// and documents by their cosine: any model can do that, and it is only done when it is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/dialect.h"
#include "server/embeddings_batch.h"
#include "server/embeddings_pooling.h"
#include "server/endpoints.h"
#include "server/generation.h"
#include "server/rerank_head.h"

namespace tokamak::server {

namespace {
constexpr size_t kMaxDocuments = 2048;  // of one request

struct Task {
  std::string model;
  std::vector<std::string> documents;
  std::vector<std::string> fields;  // their names in the request
  bool return_documents = false;
  size_t top_n = 0;
  int64_t n_tokens = 0;
  std::optional<RerankHead> head;  // none: by embeddings, of which the first is the query's
};

Result<void> read_documents(const Fields& fields, Task& task) {
  const std::string name = fields.has("documents") ? "documents" : "texts";
  const Json* list = fields.find(name);
  if (!list) return bad_field("documents", "is missing");
  if (list->empty()) return bad_field(name, "is empty");
  if (list->size() > kMaxDocuments) return bad_field(name, fmt::format("has more than {} entries", kMaxDocuments));
  for (size_t i = 0; i < list->size(); ++i) {
    task.fields.push_back(fmt::format("{}[{}]", name, i));
    const Json* text = &(*list)[i];
    if (text->is_object() && text->contains("text")) text = &(*text)["text"];
    if (!text->is_string()) return bad_field(task.fields.back(), R"(must be a text or {"text": ...})");
    task.documents.push_back(text->get<std::string>());
  }
  return {};
}

std::string replace_all(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) text.replace(at, what.size(), with);
  return text;
}

// The model's own form for a query with a document, else bos QUERY eos sep DOCUMENT eos, of the tokens that there are.
std::vector<int32_t> pair_tokens(const std::string& query, const std::string& document, const ServerContext& context) {
  const Tokenizer& tokenizer = context.tokenizer();
  const auto form = context.model.file().get_string_or("tokenizer.chat_template.rerank", "");
  if (form && !form->empty()) {
    const size_t at = form->find("{document}");  // texts are put in once: they may hold the other's mark
    std::string before(form->substr(0, at)), after(at == form->npos ? "" : form->substr(at + 10));
    return tokenizer.encode(replace_all(std::move(before), "{query}", query) + (at == form->npos ? "" : document) +
                                replace_all(std::move(after), "{query}", query),
                            {.add_special = false, .parse_special = true});
  }
  std::vector<int32_t> out;
  const auto add = [&](int32_t id) {
    if (id != kNoToken) out.push_back(id);
  };
  const auto add_text = [&](const std::string& text) {
    for (const int32_t id : tokenizer.encode(text, {.add_special = false})) out.push_back(id);
  };
  const TokenRoles& roles = tokenizer.roles();
  add(roles.bos);
  add_text(query);
  add(roles.eos);
  add(roles.sep);
  add_text(document);
  add(roles.eos);
  return out;
}

Result<EmbeddingInputs> read_inputs(const Fields& fields, const std::string& query, const ServerContext& context,
                                    const Task& task) {
  EmbeddingInputs inputs{.mode = EmbeddingMode::last, .client = fields.text("user", ""), .fields = task.fields};
  if (task.head) {
    for (const std::string& document : task.documents) inputs.tokens.push_back(pair_tokens(query, document, context));
    return inputs;
  }
  const Pooling pooling = TRY(choose_pooling(fields.text("pooling", "auto"), context));
  if (pooling == Pooling::none) return bad_field("pooling", "none makes no vectors that can be compared");
  inputs.mode = embedding_mode(pooling);
  inputs.tokens.push_back(context.tokenizer().encode(query));
  inputs.fields.insert(inputs.fields.begin(), "query");
  for (const std::string& document : task.documents) inputs.tokens.push_back(context.tokenizer().encode(document));
  for (size_t i = 0; i < inputs.tokens.size(); ++i)
    if (inputs.tokens[i].empty()) return bad_field(inputs.fields[i], "is empty");
  return inputs;
}

std::vector<float> scores(const std::vector<EmbeddingEvent>& rows, const Task& task) {
  std::vector<float> out;
  if (task.head) {
    for (const EmbeddingEvent& row : rows) out.push_back(task.head->score(row.values));
    return out;
  }
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const std::vector<float>& query = rows[0].values;
  for (size_t i = 1; i < rows.size(); ++i) {
    const double length = std::sqrt(dot(query, query) * dot(rows[i].values, rows[i].values));
    out.push_back(length > 0 ? static_cast<float>(dot(query, rows[i].values) / length) : 0);
  }
  return out;
}

Result<Json> answer(const std::vector<EmbeddingEvent>& rows, const Task& task) {
  const std::vector<float> all = scores(rows, task);
  for (const float score : all)
    if (!std::isfinite(score)) return Error{.code = ErrorCode::device_failed, .what = "the model made no finite score"};
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return all[a] > all[b]; });
  order.resize(std::min(order.size(), task.top_n));
  Json results = Json::array();
  for (const size_t i : order) {
    results.push_back({{"index", i}, {"relevance_score", all[i]}});
    if (task.return_documents) results.back()["document"] = {{"text", task.documents[i]}};
  }
  return Json{{"model", task.model},
              {"object", "list"},
              {"method", task.head ? "model" : "embedding"},
              {"usage", {{"prompt_tokens", task.n_tokens}, {"total_tokens", task.n_tokens}}},
              {"results", std::move(results)}};
}

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kRerank));
  const std::string query = fields.text("query", "");
  if (query.empty()) return bad_field("query", fields.has("query") ? "is empty" : "is missing");
  const std::string method = fields.text("method", "model");
  if (method != "model" && method != "embedding") return bad_field("method", "must be model or embedding");
  Task task{.model = fields.text("model", context.model_name),
            .return_documents = fields.flag("return_documents", fields.flag("return_text", false))};
  TRY(read_documents(fields, task));
  task.top_n = static_cast<size_t>(fields.integer("top_n", static_cast<int64_t>(task.documents.size())));
  if (method == "model") task.head = TRY(RerankHead::read(context.model));
  EmbeddingInputs inputs = TRY(read_inputs(fields, query, context, task));
  for (const auto& tokens : inputs.tokens) task.n_tokens += static_cast<int64_t>(tokens.size());
  embed(exchange, context, std::move(inputs),
        [exchange, &context, task = std::move(task)](const Result<std::vector<EmbeddingEvent>>& rows) {
          const Result<Json> json = rows ? answer(*rows, task) : Result<Json>(rows.error());
          if (json) return exchange->respond({.body = dump(*json)});
          respond_error(*exchange, context, Dialect::openai, json.error());
        });
  return {};
}

}  // namespace

void rerank(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}

}  // namespace tokamak::server
