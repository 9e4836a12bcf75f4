// `tokamak serve` as clients see it: a real process, real sockets, a tiny model.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "cli/chat_model_helpers.h"
#include "cli/process_helpers.h"
#include "server/http_client_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::json;

// The server process; ends with the object.
class ServeTest : public testing::Test {
 protected:
  void start(std::vector<std::string> flags = {}) {
    std::vector<std::string> words = {program_path(), "serve", chat_model().string(), "--port", "0",
                                      "--ctx-size",   "512"};
    words.insert(words.end(), flags.begin(), flags.end());
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_ends[1], STDERR_FILENO);
      close(pipe_ends[0]);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(pipe_ends[1]);
    std::string talk;
    for (char c; read(pipe_ends[0], &c, 1) == 1 && (talk.find("://") == talk.npos || c != '\n');) talk += c;
    talk_ = pipe_ends[0];
    const size_t colon = talk.find(':', talk.find("://") + 3);
    ASSERT_NE(colon, std::string::npos) << talk;
    port_ = static_cast<uint16_t>(std::stoi(talk.substr(colon + 1)));
  }
  int stop(int signal = SIGTERM) {
    if (pid_ <= 0) return -1;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  void TearDown() override {
    stop(SIGKILL);
    if (talk_ >= 0) close(talk_);
  }

  Reply post(std::string_view path, const Json& body, std::string_view headers = {}) {
    return fetch(port_, "POST", path, body.dump(), headers);
  }
  static Json parse(const Reply& reply) {
    const Json json = Json::parse(reply.body, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << reply.body;
    return json;
  }
  // The JSON of every `data:` line of a chunked event stream.
  static std::vector<Json> events(const Reply& reply) {
    std::vector<Json> out;
    for (size_t at = 0; (at = reply.body.find("data: ", at)) != std::string::npos; at += 6) {
      const std::string line = reply.body.substr(at + 6, reply.body.find("\n\n", at) - at - 6);
      if (line != "[DONE]") out.push_back(Json::parse(line, nullptr, false));
    }
    return out;
  }
  static Json chat(std::string_view text, int n = 12) {
    return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", n}, {"temperature", 0}};
  }

  pid_t pid_ = 0;
  int talk_ = -1;
  uint16_t port_ = 0;
};

TEST_F(ServeTest, AnswersChatsStreamedAndNotAlike) {
  start();
  const Reply whole = post("/v1/chat/completions", chat("hello"));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json json = parse(whole);
  const std::string text = json["choices"][0]["message"]["content"];
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
  EXPECT_EQ(json["object"], "chat.completion");

  Json body = chat("hello");
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const Reply streamed = post("/v1/chat/completions", body);
  ASSERT_EQ(streamed.status, 200);
  std::string joined;
  Json usage;
  for (const Json& chunk : events(streamed)) {
    ASSERT_FALSE(chunk.is_discarded());
    if (!chunk["choices"].empty()) joined += chunk["choices"][0]["delta"].value("content", "");
    if (chunk.contains("usage")) usage = chunk["usage"];
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(usage["completion_tokens"], 12);
  EXPECT_NE(streamed.body.find("data: [DONE]"), std::string::npos);
}

TEST_F(ServeTest, ManyClientsGetWhatOneAloneGets) {
  start({"--parallel", "8"});
  std::vector<std::string> alone, crowd(16);
  for (size_t i = 0; i < crowd.size(); ++i)
    alone.push_back(parse(post("/v1/chat/completions", chat("client " + std::to_string(i))))["choices"].dump());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < crowd.size(); ++i)
    clients.emplace_back([&, i] {
      crowd[i] = parse(post("/v1/chat/completions", chat("client " + std::to_string(i))))["choices"].dump();
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(crowd, alone);
}

TEST_F(ServeTest, CompletionsWithStopsLogprobsAndEcho) {
  start();
  Json body = {{"prompt", "abc"}, {"max_tokens", 4}, {"temperature", 0}, {"logprobs", 2}, {"echo", true}};
  const Json json = parse(post("/v1/completions", body));
  const Json& choice = json["choices"][0];
  EXPECT_TRUE(choice["text"].get<std::string>().starts_with("abc"));
  const Json& scores = choice["logprobs"];
  EXPECT_EQ(scores["tokens"].size(), 7u) << scores;
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  EXPECT_TRUE(scores["token_logprobs"][1].is_number());
  EXPECT_EQ(scores["text_offset"].size(), scores["tokens"].size());

  const std::string text = choice["text"].get<std::string>().substr(3);
  Json stopped = {{"prompt", "abc"}, {"max_tokens", 4}, {"temperature", 0}, {"stop", text.substr(1, 2)}};
  const Json ended = parse(post("/v1/completions", stopped));
  EXPECT_EQ(ended["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(ended["choices"][0]["stop_reason"], text.substr(1, 2));
}

TEST_F(ServeTest, NativeCompletionAndTokens) {
  start();
  const Json tokens = parse(post("/tokenize", {{"content", "a\u00fc"}}));
  EXPECT_EQ(tokens["tokens"], Json({97, 0xC3, 0xBC}));
  EXPECT_EQ(parse(post("/detokenize", tokens))["content"], "a\u00fc");
  const Json native = parse(
      post("/completion", {{"prompt", {97, "bc"}}, {"n_predict", 3}, {"temperature", 0}, {"return_tokens", true}}));
  EXPECT_EQ(native["tokens_evaluated"], 3);
  EXPECT_EQ(native["tokens"].size(), 3u);
  EXPECT_EQ(native["stop_type"], "limit");
  EXPECT_EQ(parse(post("/apply-template", chat("x")))["prompt"], "<user>x\n<assistant>");
}

TEST_F(ServeTest, BadRequestsNameTheField) {
  start();
  const auto refused = [&](const Json& change, std::string_view field, std::string_view path = "/v1/chat/completions") {
    Json body = chat("x");
    body.update(change);
    const Reply reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << change << reply.body;
    EXPECT_EQ(parse(reply)["error"]["param"], field) << reply.body;
  };
  refused({{"temperature", -1}}, "temperature");
  refused({{"temperature", "hot"}}, "temperature");
  refused({{"top_p", 2}}, "top_p");
  refused({{"max_tokens", 1.5}}, "max_tokens");
  refused({{"stop", ""}}, "stop");
  refused({{"n", 0}}, "n");
  refused({{"response_format", {{"type", "xml"}}}}, "response_format.type");
  refused({{"messages", Json::array()}}, "messages");
  refused({{"top_logprobs", 21}, {"logprobs", true}}, "top_logprobs");
  refused({{"logit_bias", {{"99999", 1}}}}, "logit_bias.99999");
  refused({{"prompt", {-5}}}, "prompt[0]", "/completion");
  refused({{"prompt", {4294967297}}}, "prompt[0]", "/completion");
  refused({{"prompt", Json::array()}}, "prompt", "/completion");
  EXPECT_EQ(fetch(port_, "POST", "/v1/chat/completions", "{").status, 400);
  EXPECT_EQ(fetch(port_, "POST", "/v1/chat/completions", std::string(200000, '[')).status, 400);
  EXPECT_EQ(fetch(port_, "GET", "/nowhere").status, 404);
  EXPECT_EQ(fetch(port_, "GET", "/v1/chat/completions").status, 405);
  // Unknown fields are ignored, null counts as absent.
  Json body = chat("x");
  body.update({{"some_future_field", 1}, {"top_p", nullptr}});
  EXPECT_EQ(post("/v1/chat/completions", body).status, 200);
  EXPECT_EQ(fetch(port_, "GET", "/health").status, 200);
}

TEST_F(ServeTest, PromptsLongerThanTheContextHaveTheStandardCode) {
  start();
  const Reply reply = post("/v1/completions", {{"prompt", std::string(600, 'x')}, {"max_tokens", 1}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(parse(reply)["error"]["code"], "context_length_exceeded");
  EXPECT_NE(reply.body.find("512"), std::string::npos);
}

TEST_F(ServeTest, KeysAreAskedFor) {
  start({"--api-key", "secret"});
  EXPECT_EQ(post("/v1/chat/completions", chat("x")).status, 401);
  EXPECT_EQ(post("/v1/chat/completions", chat("x"), "Authorization: Bearer wrong!\r\n").status, 401);
  EXPECT_EQ(post("/v1/chat/completions", chat("x", 1), "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(post("/v1/chat/completions", chat("x", 1), "X-Api-Key: secret\r\n").status, 200);
  EXPECT_EQ(fetch(port_, "GET", "/health").status, 200);
  EXPECT_EQ(fetch(port_, "GET", "/metrics").status, 401);
}

TEST_F(ServeTest, ClientsThatLeaveFreeTheirPlace) {
  start({"--parallel", "1"});
  for (int i = 0; i < 5; ++i) {
    RawClient client(port_);
    Json body = chat("long", 400);
    body["stream"] = i % 2 == 0;
    const std::string text = body.dump();
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(text.size()) + "\r\n\r\n" + text);
    if (i % 2 == 0) client.read_until("data: ");
  }
  EXPECT_EQ(post("/v1/chat/completions", chat("after", 2)).status, 200);
  const Reply metrics = fetch(port_, "GET", "/metrics");
  EXPECT_NE(metrics.body.find("tokamak_requests_total 6"), std::string::npos) << metrics.body;
}

TEST_F(ServeTest, EndsPolitelyOnSigterm) {
  start();
  EXPECT_EQ(post("/v1/chat/completions", chat("x", 1)).status, 200);
  const int status = stop();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tokamak::test
