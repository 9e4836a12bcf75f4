// /v1/embeddings, /embedding and /v1/rerank of a real process.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "cli/chat_model_helpers.h"
#include "cli/serve_helpers.h"
#include "gguf/gguf.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::json;
using Vector = std::vector<float>;

Vector decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  EXPECT_EQ(text.size() % 4, 0u);
  for (size_t i = 0; i + 3 < text.size(); i += 4) {
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j)
      group = group << 6 | static_cast<uint32_t>(text[i + j] == '=' ? 0 : digits.find(text[i + j]));
    for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(group >> shift & 255);
  }
  while (!text.empty() && bytes.size() % 4 != 0) bytes.pop_back();
  Vector out(bytes.size() / 4);
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

double norm_of(const Vector& v, double p) {
  double sum = 0;
  for (const float x : v) sum += std::pow(std::abs(x), p);
  return std::pow(sum, 1 / p);
}

// cls.output.weight [n_labels][n_embd].
std::vector<std::vector<double>> rank_head(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path);
  const GgufTensor* tensor = file ? file->find_tensor("cls.output.weight") : nullptr;
  std::vector<std::vector<double>> out;
  if (tensor == nullptr) return out;
  Vector values(static_cast<size_t>(tensor->shape.n_elements()));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  const auto n = static_cast<int64_t>(tensor->shape[1]);
  for (auto at = values.begin(); at != values.end(); at += n) out.emplace_back(at, at + n);
  return out;
}

// The first vector of an answer.
Vector vector_of(const Json& json, size_t index = 0) { return json["data"][index]["embedding"].get<Vector>(); }

TEST(ServeEmbeddings, FormsOfInputsGiveTheSameVectors) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "512", "--parallel", "4"}});
  const Json one = server.expect(200, "/v1/embeddings", {{"input", "hello there"}, {"model", "some name"}});
  EXPECT_EQ(one["object"], "list");
  EXPECT_EQ(one["model"], "some name");
  EXPECT_EQ(one["usage"]["prompt_tokens"], 11);
  EXPECT_EQ(one["usage"]["total_tokens"], 11);
  EXPECT_EQ(one["data"][0]["object"], "embedding");
  const Vector expected = vector_of(one);
  EXPECT_EQ(expected.size(), 64u);
  EXPECT_NEAR(norm_of(expected, 2), 1, 1e-6);
  Json ids = Json::array();
  for (const char c : std::string("hello there")) ids.push_back(static_cast<int>(c));
  EXPECT_EQ(vector_of(server.expect(200, "/v1/embeddings", {{"input", ids}})), expected);
  const Json list = server.expect(200, "/embeddings", {{"input", {"x", "hello there", ids}}});
  ASSERT_EQ(list["data"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(list["data"][i]["index"], i);
  EXPECT_EQ(vector_of(list, 1), expected);
  EXPECT_EQ(vector_of(list, 2), expected);
  EXPECT_NE(vector_of(list, 0), expected);
  EXPECT_EQ(list["usage"]["prompt_tokens"], 23);
  const Json lists = server.expect(200, "/v1/embeddings", {{"input", {ids, {120}}}});
  EXPECT_EQ(vector_of(lists, 0), expected);
  EXPECT_EQ(vector_of(lists, 1), vector_of(list, 0));
  const Json native = server.expect(200, "/embedding", {{"content", "hello there"}});
  ASSERT_TRUE(native.is_array());
  EXPECT_EQ(native[0]["index"], 0);
  EXPECT_EQ(native[0]["embedding"][0].get<Vector>(), expected);
}

// Hard case 44, and lists longer than the queue.
TEST(ServeEmbeddings, SameTextSameVectorInAnyList) {
  for (const char* parallel : {"1", "4"}) {
    const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "3200", "--parallel", parallel, "--batch", "128",
                                                       "--queue-limit", "2", "--kv-tokens", "6400"}});
    const std::string long_text(3000, 'q');
    const Vector short_alone = vector_of(server.expect(200, "/v1/embeddings", {{"input", "a"}}));
    const Vector space_alone = vector_of(server.expect(200, "/v1/embeddings", {{"input", " "}}));
    const Vector long_alone = vector_of(server.expect(200, "/v1/embeddings", {{"input", long_text}}));
    Json list = Json::array();
    for (int i = 0; i < 40; ++i) list.push_back(i % 13 == 5 ? long_text : i % 3 == 0 ? " " : "a");
    const Json mixed = server.expect(200, "/v1/embeddings", {{"input", list}});
    ASSERT_EQ(mixed["data"].size(), 40u);
    for (size_t i = 0; i < 40; ++i)
      EXPECT_EQ(vector_of(mixed, i), i % 13 == 5 ? long_alone : i % 3 == 0 ? space_alone : short_alone) << i;
  }
}

TEST(ServeEmbeddings, TwoThousandInputsInOneRequest) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256", "--queue-limit", "0", "--parallel", "8"}});
  Json list = Json::array();
  for (int i = 0; i < 2048; ++i) list.push_back(std::to_string(i % 7));
  const Json json = server.expect(200, "/v1/embeddings", {{"input", list}});
  ASSERT_EQ(json["data"].size(), 2048u);
  for (size_t i = 7; i < 2048; i += 119) EXPECT_EQ(vector_of(json, i), vector_of(json, i % 7));
  list.push_back("one more");
  server.expect_bad_field("input", "/v1/embeddings", {{"input", list}});
  EXPECT_EQ(server.expect(200, "/v1/embeddings", {{"input", "after"}})["data"].size(), 1u);
}

TEST(ServeEmbeddings, Base64DimensionsAndNorms) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256"}});
  const auto ask = [&](Json change) {
    Json body = {{"input", "some text"}};
    body.update(change);
    return server.expect(200, "/v1/embeddings", body);
  };
  const Vector plain = vector_of(ask(Json::object()));
  EXPECT_EQ(decode_base64(ask({{"encoding_format", "base64"}})["data"][0]["embedding"]), plain);
  const Vector raw = vector_of(ask({{"embd_normalize", -1}}));
  const double length = norm_of(raw, 2);
  for (size_t i = 0; i < raw.size(); ++i) EXPECT_NEAR(raw[i] / length, plain[i], 1e-6);
  EXPECT_NEAR(norm_of(vector_of(ask({{"embd_normalize", 1}})), 1), 1, 1e-5);
  EXPECT_NEAR(norm_of(vector_of(ask({{"embd_normalize", 3}})), 3), 1, 1e-5);
  const Vector scaled = vector_of(ask({{"embd_normalize", 0}}));
  double largest = 0;
  for (const float x : scaled) largest = std::max<double>(largest, std::abs(x));
  EXPECT_NEAR(largest, 32760, 0.01);
  for (const size_t n : {size_t{1}, size_t{10}, size_t{64}}) {
    const Vector cut = vector_of(ask({{"dimensions", n}}));
    ASSERT_EQ(cut.size(), n);
    const Vector first(raw.begin(), raw.begin() + static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(cut[i], first[i] / norm_of(first, 2), 1e-6);
    EXPECT_EQ(decode_base64(ask({{"dimensions", n}, {"encoding_format", "base64"}})["data"][0]["embedding"]), cut);
  }
}

TEST(ServeEmbeddings, PoolingsAreThoseOfTheRowsOfTokens) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256", "--pooling", "last"}});
  const auto ask = [&](const char* pooling) {
    return server.expect(200, "/embedding", {{"content", "abcde"}, {"pooling", pooling}, {"embd_normalize", -1}});
  };
  const auto rows = ask("none")[0]["embedding"].get<std::vector<Vector>>();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(ask("cls")[0]["embedding"][0].get<Vector>(), rows.front());
  EXPECT_EQ(ask("last")[0]["embedding"][0].get<Vector>(), rows.back());
  EXPECT_EQ(ask("auto")[0]["embedding"][0].get<Vector>(), rows.back());
  const Vector mean = ask("mean")[0]["embedding"][0].get<Vector>();
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Vector& row : rows) sum += row[i];
    EXPECT_NEAR(mean[i], sum / 5, 1e-5);
  }
  server.expect_bad_field("pooling", "/v1/embeddings", {{"input", "x"}, {"pooling", "none"}});
  server.expect_bad_field("pooling", "/v1/embeddings", {{"input", "x"}, {"pooling", "rank"}});
  server.expect_bad_field("pooling", "/v1/embeddings", {{"input", "x"}, {"pooling", "maximum"}});
}

TEST(ServeEmbeddings, BadRequestsNameTheField) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256"}});
  const auto refused = [&](Json body, std::string_view field) {
    server.expect_bad_field(field, "/v1/embeddings", body);
  };
  refused(Json::object(), "input");
  refused({{"input", ""}}, "input");
  refused({{"input", Json::array()}}, "input");
  refused({{"input", {"a", ""}}}, "input[1]");
  refused({{"input", {Json::array({1}), Json::array()}}}, "input[1]");
  refused({{"input", {-5}}}, "input[0]");
  refused({{"input", {4294967297}}}, "input[0]");
  refused({{"input", {1.5}}}, "input[0]");
  refused({{"input", {"a", 7}}}, "input[1]");
  refused({{"input", {{1}, {2, 259}}}}, "input[1][1]");
  refused({{"input", 5}}, "input");
  refused({{"input", {{"a", 1}}}}, "input");
  refused({{"input", "x"}, {"dimensions", 65}}, "dimensions");
  refused({{"input", "x"}, {"dimensions", 0}}, "dimensions");
  refused({{"input", "x"}, {"encoding_format", "hex"}}, "encoding_format");
  refused({{"input", "x"}, {"embd_normalize", -2}}, "embd_normalize");
  const Json json = server.expect(400, "/v1/embeddings", {{"input", {"a", std::string(257, 'x')}}});
  EXPECT_EQ(json["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(json["error"]["param"], "input[1]");
  // One vector per token of a list of long texts: more than an answer may hold.
  Json list = Json::array();
  for (int i = 0; i < 100; ++i) list.push_back(std::string(3000, 'x'));
  server.expect_bad_field("input", "/embedding", {{"input", list}, {"pooling", "none"}});
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(ServeEmbeddings, ModelsThatAttendBothWaysAreRefused) {
  const ServeProcess server(chat_model({.causal = false}), {.flags = {"--ctx-size", "256"}});
  const Json json = server.expect(400, "/v1/embeddings", {{"input", "x"}});
  EXPECT_NE(json.dump().find("attention"), std::string::npos) << json;
}

TEST(ServeEmbeddings, ClientsThatLeaveFreeTheirPlace) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256", "--parallel", "2"}});
  Json list = Json::array();
  for (int i = 0; i < 1000; ++i) list.push_back(std::string(200, static_cast<char>('a' + i % 26)));
  const std::string body = Json{{"input", list}}.dump();
  for (int i = 0; i < 3; ++i) {
    RawClient client(server.port());
    client.send("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
  }
  EXPECT_EQ(server.expect(200, "/v1/embeddings", {{"input", "x"}})["data"].size(), 1u);
  for (int i = 0; i < 200; ++i) {
    const Reply metrics = server.get("/metrics");
    if (metrics.body.find("tokamak_requests_processing 0\n") != std::string::npos &&
        metrics.body.find("tokamak_requests_deferred 0\n") != std::string::npos)
      return;
    usleep(50000);
  }
  FAIL() << "requests of clients that left still run";
}

TEST(ServeRerank, ModelsWithoutAHeadSayHowElse) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "256"}});
  const Json docs = {"the cat", "zzzz", "the cats"};
  const Json refused = server.expect(400, "/v1/rerank", {{"query", "the cat"}, {"documents", docs}});
  EXPECT_NE(refused.dump().find("method"), std::string::npos) << refused;
  for (const char* path : {"/v1/rerank", "/rerank", "/reranking", "/v1/reranking"}) {
    const Json json = server.expect(
        200, path,
        {{"query", "the cat"}, {"documents", docs}, {"method", "embedding"}, {"top_n", 2}, {"return_documents", true}});
    ASSERT_EQ(json["results"].size(), 2u);
    EXPECT_EQ(json["method"], "embedding");
    EXPECT_EQ(json["results"][0]["index"], 0);
    EXPECT_NEAR(json["results"][0]["relevance_score"].get<double>(), 1, 1e-6);
    EXPECT_EQ(json["results"][0]["document"]["text"], "the cat");
    EXPECT_LT(json["results"][1]["relevance_score"], json["results"][0]["relevance_score"]);
    EXPECT_EQ(json["usage"]["prompt_tokens"], 7 + 7 + 4 + 8);
  }
  server.expect_bad_field("query", "/v1/rerank", {{"documents", docs}});
  server.expect_bad_field("documents", "/v1/rerank", {{"query", "x"}});
  server.expect_bad_field("documents", "/v1/rerank", {{"query", "x"}, {"documents", Json::array()}});
  server.expect_bad_field("documents[1]", "/v1/rerank", {{"query", "x"}, {"documents", {"a", 1}}});
  server.expect_bad_field("documents[1]", "/v1/rerank",
                          {{"query", "x"}, {"documents", {"a", ""}}, {"method", "embedding"}});
  server.expect_bad_field("top_n", "/v1/rerank", {{"query", "x"}, {"documents", {"a"}}, {"top_n", 0}});
  server.expect_bad_field("method", "/v1/rerank", {{"query", "x"}, {"documents", {"a"}}, {"method", "guess"}});
}

// The score is the head's product with the last row; the rows themselves come from /embedding.
TEST(ServeRerank, ScoresAreThoseOfTheHead) {
  const std::vector<std::string> documents = {"first", "second one", "x"};
  const auto ask = [&](int64_t n_labels) {
    const ServeProcess server(chat_model({.n_labels = n_labels, .pooling = 4}), {.flags = {"--ctx-size", "256"}});
    server.expect_bad_field("pooling", "/v1/embeddings", {{"input", "x"}});
    const Json json = server.expect(200, "/v1/rerank", {{"query", "q"}, {"texts", documents}});
    EXPECT_EQ(json["method"], "model");
    EXPECT_EQ(json["results"].size(), 3u);
    std::vector<double> scores(3);
    double before = 1e9;
    for (const Json& result : json["results"]) {
      scores[result["index"].get<size_t>()] = result["relevance_score"];
      EXPECT_LE(result["relevance_score"].get<double>(), before);
      before = result["relevance_score"];
    }
    return scores;
  };
  const auto rows_of = [&](int64_t n_labels, std::vector<std::vector<double>>& head) {
    const auto path = chat_model({.n_labels = n_labels, .pooling = 4});
    head = rank_head(path);
    const ServeProcess server(path, {.flags = {"--ctx-size", "256", "--pooling", "last"}});
    Json inputs = Json::array();
    for (const std::string& document : documents) {
      Json ids = {256, 'q', 257};  // bos query eos document eos
      for (const char c : document) ids.push_back(static_cast<int>(c));
      ids.push_back(257);
      inputs.push_back(ids);
    }
    std::vector<Vector> rows;
    for (const Json& row : server.expect(200, "/embedding", {{"input", inputs}, {"embd_normalize", -1}}))
      rows.push_back(row["embedding"][0].get<Vector>());
    return rows;
  };
  for (const int64_t n_labels : {1, 2}) {
    std::vector<std::vector<double>> head;
    const std::vector<Vector> rows = rows_of(n_labels, head);
    const std::vector<double> scores = ask(n_labels);
    for (size_t i = 0; i < 3; ++i) {
      std::vector<double> y;
      for (const auto& w : head) y.push_back(std::inner_product(w.begin(), w.end(), rows[i].begin(), 0.0));
      const double expected = n_labels == 1 ? y[0] : 1 / (1 + std::exp(y[1] - y[0]));
      EXPECT_NEAR(scores[i], expected, 1e-4 * std::max(1.0, std::abs(expected)));
    }
  }
}

}  // namespace
}  // namespace tokamak::test
