// Anthropic's Messages API over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

constexpr std::string_view kPath = "/v1/messages";
const Json kWeather = {
    {"name", "weather"},
    {"description", "of a town"},
    {"input_schema",
     {{"type", "object"}, {"properties", {{"town", {{"enum", {"Rome", "Oslo"}}}}}}, {"required", {"town"}}}}};

Json asks(std::string_view text) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 100}, {"temperature", 0}};
}
// The model's words are forced, so that answers end.
Json says(std::string_view text) {
  Json body = asks("hi");
  body["grammar"] = "root ::= " + Json(text).dump();
  return body;
}

// Types of events; deltas by their own type, runs of equal ones once.
std::vector<std::string> types(const std::vector<StreamEvent>& events) {
  std::vector<std::string> out;
  for (const StreamEvent& event : events) {
    EXPECT_EQ(event.name, event.data["type"]);
    std::string type = event.data["type"];
    if (type == "content_block_delta") type = event.data["delta"]["type"];
    if (out.empty() || out.back() != type) out.push_back(type);
  }
  return out;
}

// The message that a client puts together.
Json assembled(const std::vector<StreamEvent>& events) {
  Json message;
  std::string arguments;
  for (const StreamEvent& event : events) {
    const Json& e = event.data;
    if (e["type"] == "message_start") message = e["message"];
    if (e["type"] == "content_block_start") {
      EXPECT_EQ(e["index"], message["content"].size());
      message["content"].push_back(e["content_block"]);
      arguments.clear();
    }
    if (e["type"] == "content_block_delta") {
      Json& block = message["content"][e["index"].get<size_t>()];
      const Json& delta = e["delta"];
      for (const char* key : {"text", "thinking", "signature"})
        if (delta.contains(key)) block[key] = block[key].get<std::string>() + delta[key].get<std::string>();
      if (delta.contains("partial_json")) arguments += delta["partial_json"].get<std::string>();
    }
    if (e["type"] == "content_block_stop" && !arguments.empty())
      message["content"][e["index"].get<size_t>()]["input"] = Json::parse(arguments, nullptr, false);
    if (e["type"] == "message_delta") {
      message.update(e["delta"]);
      message["usage"].update(e["usage"]);
    }
  }
  return message;
}

Json stripped(Json message) {
  message.erase("id");
  message.erase("timings");
  for (Json& block : message["content"]) block.erase("id");
  for (const char* key : {"input_tokens", "cache_read_input_tokens"}) message["usage"].erase(key);
  return message;
}

TEST(Messages, AnswersStreamedAndNotAlike) {
  const ModelServer server;
  Json body = says("Hello!");
  const Json whole = server.ask(kPath, body);
  EXPECT_TRUE(whole["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(whole["type"], "message");
  EXPECT_EQ(whole["role"], "assistant");
  EXPECT_EQ(whole["content"], Json::parse(R"([{"type": "text", "text": "Hello!"}])"));
  EXPECT_EQ(whole["stop_reason"], "end_turn");
  EXPECT_TRUE(whole["stop_sequence"].is_null());
  EXPECT_EQ(whole["usage"]["output_tokens"], 6);
  EXPECT_EQ(whole["usage"]["cache_read_input_tokens"], 0);
  EXPECT_EQ(whole["usage"]["cache_creation_input_tokens"], 0);

  body["stream"] = true;
  const auto events = stream_events(server.post(kPath, body, "anthropic-version: 2023-06-01\r\n"));
  EXPECT_THAT(types(events), ElementsAre("message_start", "ping", "content_block_start", "text_delta",
                                         "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(stripped(assembled(events)), stripped(whole));
  const Json& usage = events[0].data["message"]["usage"];
  EXPECT_GT(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(), 0);
}

TEST(Messages, ThoughtsAndCalls) {
  const ModelServer server;
  Json body = asks("Weather?");
  body["tools"] = {kWeather, {{"type", "web_search_20250305"}, {"name", "web_search"}}};
  body["tool_choice"] = {{"type", "tool"}, {"name", "weather"}, {"disable_parallel_tool_use", true}};
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 4}};
  body["max_tokens"] = 500;  // the tiny model likes white space
  const Reply reply = server.post(kPath, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_NE(reply.head.find("X-Tokamak-Ignored-Tools: web_search_20250305"), std::string::npos);
  const Json whole = Json::parse(reply.body);
  ASSERT_EQ(whole["content"].size(), 2u) << whole;
  EXPECT_EQ(whole["content"][0]["type"], "thinking");
  EXPECT_EQ(whole["content"][0]["signature"], "");
  EXPECT_EQ(whole["content"][0]["thinking"].get<std::string>().size(), 4u);
  const Json& call = whole["content"][1];
  EXPECT_EQ(call["type"], "tool_use");
  EXPECT_EQ(call["name"], "weather");
  EXPECT_TRUE(call["input"]["town"] == "Rome" || call["input"]["town"] == "Oslo") << call;
  EXPECT_EQ(whole["stop_reason"], "tool_use");

  body["stream"] = true;
  const auto events = stream_events(server.post(kPath, body));
  EXPECT_THAT(types(events), ElementsAre("message_start", "ping", "content_block_start", "thinking_delta",
                                         "signature_delta", "content_block_stop", "content_block_start",
                                         "input_json_delta", "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(stripped(assembled(events)), stripped(whole));

  body["thinking"] = {{"type", "disabled"}};
  body["stream"] = false;
  EXPECT_EQ(server.ask(kPath, body)["content"].size(), 1u);
}

TEST(Messages, HistoriesBecomeChats) {
  const ModelServer server;
  Json body = says("Done.");
  body["system"] = Json::parse(R"([{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}])");
  body["messages"] = Json::parse(R"([
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "Ask.", "signature": "s"},
      {"type": "redacted_thinking", "data": "x"},
      {"type": "text", "text": "Looking."},
      {"type": "tool_use", "id": "t1", "name": "weather", "input": {"town": "Rome"}},
      {"type": "tool_use", "id": "t2", "name": "weather", "input": {}}]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "t1", "content": "sun"},
      {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [{"type": "text", "text": "no town"}]},
      {"type": "text", "text": "And?"}]}])");
  body["tools"] = Json::array({kWeather});
  body["tool_choice"] = {{"type", "none"}};  // the forced words are no call
  body["metadata"] = {{"user_id", "u"}};
  const Json r = server.ask(kPath, body);
  EXPECT_EQ(r["content"][0]["text"], "Done.");

  Json chat = Json::parse(R"({"messages": [
    {"role": "system", "content": "Rules."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "Looking.", "reasoning_content": "Ask.", "tool_calls": [
      {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{\"town\": \"Rome\"}"}},
      {"id": "t2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "t1", "content": "sun"},
    {"role": "tool", "tool_call_id": "t2", "content": "Error: no town"},
    {"role": "user", "content": "And?"}],
    "tools": [{"type": "function", "function": {"name": "weather", "description": "of a town", "parameters":
      {"type": "object", "properties": {"town": {"enum": ["Rome", "Oslo"]}}, "required": ["town"]}}}]})");
  const auto count = [&] { return server.ask("/v1/chat/completions/input_tokens", chat)["input_tokens"]; };
  body.erase("max_tokens");
  body.erase("tool_choice");
  EXPECT_EQ(server.ask("/v1/messages/count_tokens", body), (Json{{"input_tokens", count()}}));
  chat.erase("tools");
  EXPECT_EQ(r["usage"]["input_tokens"], count());
}

TEST(Messages, TheLastWordsOfTheAssistantAreContinued) {
  const ModelServer server;
  Json body = asks("hi");
  body["messages"].push_back({{"role", "assistant"}, {"content", "Hel"}});
  const Json chat = {{"messages", body["messages"]}, {"continue_final_message", true}};
  EXPECT_EQ(server.ask("/v1/messages/count_tokens", body)["input_tokens"],
            server.ask("/v1/chat/completions/input_tokens", chat)["input_tokens"]);
  EXPECT_EQ(server.ask(kPath, body)["stop_reason"], "max_tokens");
}

TEST(Messages, StopSequences) {
  const ModelServer server;
  const auto ends_with = [&](const Json& stops) {
    Json body = says("ALFA BRAVO CHARLIE");
    body["stop_sequences"] = stops;
    const Json whole = server.ask(kPath, body);
    body["stream"] = true;
    EXPECT_EQ(stripped(assembled(stream_events(server.post(kPath, body)))), stripped(whole));
    return whole;
  };
  const Json spans = ends_with({"VO CH"});
  EXPECT_EQ(spans["content"][0]["text"], "ALFA BRA");
  EXPECT_EQ(spans["stop_reason"], "stop_sequence");
  EXPECT_EQ(spans["stop_sequence"], "VO CH");
  const Json prefix = ends_with({"CHARLIE\nZZZZ"});
  EXPECT_EQ(prefix["content"][0]["text"], "ALFA BRAVO CHARLIE");
  EXPECT_EQ(prefix["stop_reason"], "end_turn");
  EXPECT_EQ(ends_with({"A"})["content"], Json::array());
}

TEST(Messages, StructuredOutput) {
  const ModelServer server;
  Json body = asks("hi");
  body["output_config"] = {
      {"format",
       {{"type", "json_schema"},
        {"schema",
         {{"type", "object"}, {"properties", {{"mood", {{"enum", {"calm", "storm"}}}}}}, {"required", {"mood"}}}}}}};
  const Json parsed = Json::parse(server.ask(kPath, body)["content"][0]["text"].get<std::string>());
  EXPECT_TRUE(parsed["mood"] == "calm" || parsed["mood"] == "storm");
}

TEST(Messages, ErrorsAreInTheDialectOfTheApi) {
  const ModelServer server;
  const auto refused = [&](const Json& change, std::string_view words) {
    Json body = asks("hi");
    body.update(change);
    const Reply reply = server.post(kPath, body);
    EXPECT_EQ(reply.status, 400) << change;
    const Json json = Json::parse(reply.body);
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["type"], "invalid_request_error");
    EXPECT_NE(json["error"]["message"].get<std::string>().find(words), std::string::npos) << reply.body;
  };
  refused({{"max_tokens", nullptr}}, "max_tokens");
  refused({{"max_tokens", 0}}, "max_tokens");
  refused({{"messages", Json::array()}}, "messages");
  refused({{"messages", Json::parse(R"([{"role": "user", "content": []}])")}}, "messages");
  refused({{"messages", Json::parse(R"([{"role": "user", "content": [{"type": "image", "source": {}}]}])")}},
          "messages[0].content[0].type");
  refused({{"messages", Json::parse(R"([{"role": "user", "content": [{"type": "tool_use", "id": "x"}]}])")}},
          "messages[0].content[0].type");
  refused({{"messages", Json::parse(R"([{"role": "tool", "content": "x"}])")}}, "messages[0].role");
  refused({{"system", 5}}, "system");
  refused({{"stop_sequences", {""}}}, "stop_sequences");
  refused({{"thinking", {{"type", "maybe"}}}}, "thinking.type");
  refused({{"tools", {{{"name", "f"}}}}}, "tools[0].input_schema");
  refused({{"tools", {kWeather}}, {"tool_choice", {{"type", "tool"}, {"name", "g"}}}}, "tool_choice");
  refused({{"output_format", {{"type", "json_schema"}}}}, "output_format.schema");
  refused({{"temperature", -1}}, "temperature");
  refused({{"logit_bias", {{"99999", 1}}}}, "logit_bias.99999");
  EXPECT_EQ(fetch(server.port(), "POST", kPath, "{").body.find(R"({"type":"error")"), 0u);
  EXPECT_EQ(fetch(server.port(), "GET", kPath).body.find(R"({"type":"error")"), 0u);
}

// Hard case 45.
TEST(Messages, PromptsThatAreTooLong) {
  const ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 256);
  const Json error = server.refusal(kPath, asks(std::string(300, 'x')));
  EXPECT_EQ(error["type"], "invalid_request_error");
  const std::string message = error["message"];
  EXPECT_TRUE(message.starts_with("prompt is too long")) << message;
  EXPECT_NE(message.find("256"), std::string::npos);
  Json body = asks(std::string(200, 'x'));
  body["max_tokens"] = 200;
  const Json r = server.ask(kPath, body);
  EXPECT_EQ(r["stop_reason"], "model_context_window_exceeded");
}

TEST(Messages, KeysMayComeInAnthropicsHeader) {
  server::ServerOptions options;
  options.api_keys = {"secret"};
  const ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 256, options);
  EXPECT_EQ(server.post(kPath, says("a")).status, 401);
  EXPECT_NE(server.post(kPath, says("a")).body.find("authentication_error"), std::string::npos);
  EXPECT_EQ(server.post(kPath, says("a"), "x-api-key: secret\r\n").status, 200);
}

// A stream that has begun ends with an event that says why.
TEST(Messages, FailuresInTheStreamAreEvents) {
  for (const std::string_view path : {std::string_view("/v1/messages"), std::string_view("/v1/responses")}) {
    ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 4096);
    Json body = path == kPath ? asks("hi") : Json{{"input", "hi"}};
    body["stream"] = true;
    body["max_tokens"] = 4000;
    const std::string text = body.dump();
    RawClient client(server.port());
    client.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: " +
                std::to_string(text.size()) + "\r\n\r\n" + text);
    client.read_until("delta");
    server.server().shut_down(0);
    const std::string rest = client.read_all();
    const auto events = stream_events({.status = 200, .head = {}, .body = rest});
    ASSERT_FALSE(events.empty()) << path;
    const Json& last = events.back().data;
    if (path == kPath) {
      EXPECT_EQ(last["type"], "error") << last;
      EXPECT_EQ(last["error"]["type"], "overloaded_error");
    } else {
      EXPECT_EQ(last["type"], "response.failed") << last;
      EXPECT_EQ(last["response"]["status"], "failed");
      EXPECT_EQ(last["response"]["error"]["code"], "server_error");
    }
  }
}

}  // namespace
}  // namespace tokamak::test
