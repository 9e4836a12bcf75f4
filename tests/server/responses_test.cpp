// The Responses API over real sockets: shapes, events, and what agents send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

constexpr std::string_view kPath = "/v1/responses";
const Json kWeather = {
    {"type", "function"},
    {"name", "weather"},
    {"description", "of a town"},
    {"parameters",
     {{"type", "object"}, {"properties", {{"town", {{"enum", {"Rome", "Oslo"}}}}}}, {"required", {"town"}}}}};

// The model's words are forced, so that answers end.
Json says(std::string_view text) {
  return {{"input", "hi"}, {"temperature", 0}, {"grammar", "root ::= " + Json(text).dump()}};
}

std::vector<std::string> types(const std::vector<StreamEvent>& events) {
  std::vector<std::string> out;
  for (const StreamEvent& event : events) {
    const std::string type = event.data["type"];
    if (out.empty() || out.back() != type || !type.ends_with(".delta")) out.push_back(type);  // deltas count once
  }
  return out;
}

std::string joined(const std::vector<StreamEvent>& events, std::string_view type) {
  std::string out;
  for (const StreamEvent& event : events)
    if (event.data["type"] == type) out += event.data["delta"].get<std::string>();
  return out;
}

// What holds for every stream.
void expect_sound(const std::vector<StreamEvent>& events) {
  ASSERT_FALSE(events.empty());
  const std::string id = events[0].data["response"]["id"];
  EXPECT_TRUE(id.starts_with("resp_"));
  std::string item_id;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& e = events[i].data;
    const std::string type = e["type"];
    EXPECT_EQ(events[i].name, type);
    EXPECT_EQ(e["sequence_number"], i) << e;
    if (type == "response.output_item.added") item_id = e["item"]["id"];
    EXPECT_EQ(e.value("item_id", item_id), item_id);
    EXPECT_EQ(e.contains("item") ? e["item"]["id"].get<std::string>() : item_id, item_id);
    EXPECT_EQ(e.contains("response") ? e["response"]["id"].get<std::string>() : id, id);
    EXPECT_NE(e.contains("response"), e.contains("output_index")) << e;
    const bool is_part = type.find("text") != type.npos || type.find("content_part") != type.npos;
    EXPECT_EQ(e.contains("content_index"), is_part) << e;
  }
}

// Without what differs between two answers.
Json stripped(Json response) {
  for (const char* key : {"id", "created_at", "completed_at", "timings"}) response.erase(key);
  for (Json& item : response["output"])
    for (const char* key : {"id", "call_id"}) item.erase(key);
  response["usage"].erase("input_tokens_details");
  return response;
}

TEST(Responses, AnswersHoldWhatStrictClientsAskFor) {
  const ModelServer server;
  Json body = says("Hello!");
  body.update({{"instructions", "Be kind."}, {"metadata", {{"a", "b"}}}, {"max_output_tokens", 50}});
  const Json r = server.ask(kPath, body);
  EXPECT_TRUE(r["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(r["object"], "response");
  EXPECT_EQ(r["status"], "completed");
  EXPECT_EQ(r["model"], "tiny chat");  // none was named
  EXPECT_EQ(r["instructions"], "Be kind.");
  EXPECT_EQ(r["metadata"], Json({{"a", "b"}}));
  EXPECT_EQ(r["text"]["format"]["type"], "text");
  EXPECT_EQ(r["tool_choice"], "auto");
  EXPECT_EQ(r["tools"], Json::array());
  for (const char* key : {"created_at", "error", "incomplete_details", "parallel_tool_calls", "temperature", "top_p",
                          "previous_response_id", "reasoning", "truncation", "usage"})
    EXPECT_TRUE(r.contains(key)) << key;
  ASSERT_EQ(r["output"].size(), 1u);
  EXPECT_TRUE(r["output"][0]["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(
      r["output"][0]["content"][0],
      Json({{"type", "output_text"}, {"annotations", Json::array()}, {"logprobs", Json::array()}, {"text", "Hello!"}}));
  EXPECT_EQ(r["usage"]["output_tokens"], 6);
  EXPECT_EQ(r["usage"]["total_tokens"], r["usage"]["input_tokens"].get<int>() + 6);
  EXPECT_EQ(r["usage"]["input_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(r["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_GT(r["timings"]["predicted_per_second"], 0);
}

TEST(Responses, EventsComeInOrderAndSayWhatTheWholeAnswerSays) {
  const ModelServer server;
  Json body = says("Hello!");
  const Json whole = server.ask(kPath, body);
  body["stream"] = true;
  const auto events = stream_events(server.post("/responses", body));
  expect_sound(events);
  EXPECT_THAT(types(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(joined(events, "response.output_text.delta"), "Hello!");
  EXPECT_EQ(stripped(events.back().data["response"]), stripped(whole));
  EXPECT_TRUE(events.back().data.contains("timings"));
  EXPECT_EQ(events[0].data["response"]["status"], "in_progress");
}

TEST(Responses, ThoughtsAndCallsAreItemsOfTheirOwn) {
  const ModelServer server;
  Json body = {{"input", "Weather?"},          {"temperature", 0},
               {"tools", {kWeather}},          {"tool_choice", "required"},
               {"parallel_tool_calls", false}, {"reasoning", {{"effort", "low"}}},
               {"reasoning_budget", 5}};
  const Json whole = server.ask(kPath, body);
  ASSERT_EQ(whole["output"].size(), 2u) << whole["output"];
  const Json& thought = whole["output"][0];
  EXPECT_EQ(thought["type"], "reasoning");
  EXPECT_EQ(thought["summary"], Json::array());
  EXPECT_EQ(thought["content"][0]["type"], "reasoning_text");
  EXPECT_EQ(thought["content"][0]["text"].get<std::string>().size(), 5u);
  EXPECT_EQ(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 5);
  const Json& call = whole["output"][1];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "weather");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("fc_"));
  EXPECT_FALSE(call["call_id"].get<std::string>().empty());
  const Json arguments = Json::parse(call["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["town"] == "Rome" || arguments["town"] == "Oslo");
  EXPECT_EQ(whole["tools"][0]["name"], "weather");

  body["stream"] = true;
  const auto events = stream_events(server.post(kPath, body));
  expect_sound(events);
  EXPECT_THAT(types(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(joined(events, "response.function_call_arguments.delta"), call["arguments"]);
  EXPECT_EQ(stripped(events.back().data["response"]), stripped(whole));
}

// Facts 1.4: the stream opens with the first progress, and opens once.
TEST(Responses, ProgressOpensTheStreamOnce) {
  const ModelServer server;
  std::string text;
  for (int i = 0; i < 10; ++i) text += "This is a test";
  const Json body = {{"input", text},
                     {"max_output_tokens", 8},
                     {"stream", true},
                     {"return_progress", true},
                     {"timings_per_token", true}};
  const auto events = stream_events(server.post(kPath, body));
  expect_sound(events);
  ASSERT_GT(events.size(), 4u);
  size_t n_progress = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& e = events[i].data;
    EXPECT_EQ(e["type"] == "response.created", i == 0);
    if (!e.contains("prompt_progress")) continue;
    EXPECT_EQ(e["type"], "response.in_progress");
    EXPECT_EQ(e["response"]["status"], "in_progress");
    const Json& p = e["prompt_progress"];
    EXPECT_GT(p["total"], 0);
    EXPECT_GE(p["processed"], p["cache"]);
    EXPECT_TRUE(p.contains("time_ms"));
    ++n_progress;
  }
  EXPECT_TRUE(events[1].data.contains("prompt_progress"));
  EXPECT_GE(n_progress, 3u);  // 140 and more tokens in steps of 64
  size_t n_deltas = 0, n_timed = 0;
  for (const StreamEvent& event : events) {
    if (event.data["type"] != "response.output_text.delta") continue;
    ++n_deltas;
    n_timed += event.data.contains("timings");
  }
  EXPECT_EQ(n_deltas, 8u);
  EXPECT_EQ(n_timed, 8u);
  const Json& last = events.back().data;
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
  EXPECT_GT(last["timings"]["prompt_per_second"], 0);
  EXPECT_GT(last["timings"]["predicted_per_second"], 0);
}

TEST(Responses, TakesWhatAgentsSend) {
  const ModelServer server;
  Json body = says("Done.");
  body["input"] = Json::parse(R"([
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
    {"role": "user", "content": "Weather?"},
    {"type": "reasoning", "summary": [], "encrypted_content": "abc", "content": null},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ask."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"town\": \"Rome\"}"},
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": ""},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]},
    {"type": "message", "role": "assistant", "status": "completed", "id": "msg_1",
     "content": [{"type": "refusal", "refusal": "No."}]},
    {"role": "user", "content": [{"type": "input_text", "text": "And?"}]}])");
  body["instructions"] = "Base.";
  body["tool_choice"] = "none";  // the forced words are no call
  body["tools"] = {
      kWeather, {{"type", "web_search"}}, {{"type", "custom"}, {"name", "patch"}}, {{"type", "namespace"}}};
  body.update(Json::parse(R"({"store": false, "include": ["reasoning.encrypted_content"], "parallel_tool_calls": true,
    "prompt_cache_key": "k", "some_future_field": {"a": 1}, "client_metadata": {}, "service_tier": "auto",
    "stream_options": {"include_obfuscation": false}, "truncation": "disabled", "background": false})"));
  const Reply reply = server.post(kPath, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_NE(reply.head.find("X-Tokamak-Ignored-Tools: web_search, custom, namespace"), std::string::npos) << reply.head;
  const Json r = Json::parse(reply.body);
  EXPECT_EQ(r["output"][0]["content"][0]["text"], "Done.");
  EXPECT_EQ(r["tools"].size(), 1u);

  // The prompt is that of the same chat.
  const Json chat = Json::parse(R"({"messages": [
    {"role": "system", "content": "Base.\n\nRules."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "Looking.", "reasoning_content": "Ask.", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"town\": \"Rome\"}"}},
      {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "sun"},
    {"role": "tool", "tool_call_id": "c2", "content": "rain"},
    {"role": "assistant", "content": "No."},
    {"role": "user", "content": "And?"}]})");
  const Json counted = server.ask("/v1/chat/completions/input_tokens", chat);
  EXPECT_EQ(counted["object"], "response.input_tokens");
  EXPECT_EQ(r["usage"]["input_tokens"], counted["input_tokens"]);

  Json with_tools = chat, function = kWeather;
  function.erase("type");
  with_tools["tools"] = Json::array({{{"type", "function"}, {"function", function}}});
  body["tool_choice"] = "auto";
  EXPECT_EQ(server.ask("/v1/responses/input_tokens", body),
            server.ask("/v1/chat/completions/input_tokens", with_tools));
}

TEST(Responses, RefusalsNameTheField) {
  const ModelServer server;
  const auto refused = [&](const Json& change, std::string_view param, int status = 400) {
    Json body = {{"input", "hi"}, {"max_output_tokens", 1}};
    body.update(change);
    EXPECT_EQ(server.refusal(kPath, body, status)["param"], param) << change;
  };
  refused({{"input", Json::array()}}, "input");
  refused({{"input", 5}}, "input");
  refused({{"input", {{{"type", "item_reference"}, {"id", "msg_1"}}}}}, "input[0]");
  refused({{"input", {{{"role", "user"}, {"content", "x"}}, {{"type", "computer_call"}}}}}, "input[1].type");
  refused({{"input", {{{"role", "king"}, {"content", "x"}}}}}, "input[0].role");
  refused({{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}, {"image_url", "x"}}}}}}}},
          "input[0].content[0].type");
  refused({{"input", {{{"type", "function_call"}, {"name", "f"}}}}}, "input[0].call_id");
  refused({{"input", {{{"type", "function_call_output"}, {"call_id", "c"}}}}}, "input[0].output");
  refused({{"previous_response_id", "resp_1"}}, "previous_response_id", 404);
  refused({{"conversation", "conv_1"}}, "conversation", 404);
  refused({{"background", true}}, "background");
  refused({{"tool_choice", "required"}}, "tool_choice");
  refused({{"tool_choice", {{"type", "function"}, {"name", "f"}}}, {"tools", {kWeather}}}, "tool_choice");
  refused({{"text", {{"format", {{"type", "json_schema"}}}}}}, "text.format.schema");
  refused({{"text", {{"format", {{"type", "text"}}}}}, {"max_output_tokens", 0}}, "max_output_tokens");
  refused({{"reasoning", {{"effort", 3}}}}, "reasoning.effort");
  refused({{"temperature", 9e9}}, "temperature");
  refused({{"stop", ""}}, "stop");
  refused({{"logit_bias", {{"99999", 1}}}}, "logit_bias.99999");
  EXPECT_EQ(fetch(server.port(), "POST", kPath, "{}").status, 400);
}

TEST(Responses, StructuredOutput) {
  const ModelServer server;
  const Json body = {{"input", "hi"},
                     {"text",
                      {{"format",
                        {{"type", "json_schema"},
                         {"name", "mood"},
                         {"strict", true},
                         {"schema",
                          {{"type", "object"},
                           {"properties", {{"mood", {{"enum", {"calm", "storm"}}}}}},
                           {"required", {"mood"}},
                           {"additionalProperties", false}}}}},
                       {"verbosity", "low"}}}};
  const Json r = server.ask(kPath, body);
  const Json parsed = Json::parse(r["output"][0]["content"][0]["text"].get<std::string>());
  EXPECT_TRUE(parsed["mood"] == "calm" || parsed["mood"] == "storm");
  EXPECT_EQ(r["text"]["format"]["name"], "mood");
  EXPECT_EQ(r["text"]["verbosity"], "low");
}

TEST(Responses, LogprobsOfTheText) {
  const ModelServer server;
  Json body = says("ab");
  body["include"] = {"message.output_text.logprobs"};
  body["top_logprobs"] = 2;
  const Json r = server.ask(kPath, body);
  const Json& logprobs = r["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 2u);
  EXPECT_EQ(logprobs[1]["token"], "b");
  EXPECT_EQ(logprobs[1]["bytes"], Json({'b'}));
  EXPECT_EQ(logprobs[1]["top_logprobs"].size(), 2u);
  body["stream"] = true;
  for (const StreamEvent& event : stream_events(server.post(kPath, body)))
    if (event.data["type"] == "response.output_text.delta") {
      EXPECT_EQ(event.data["logprobs"].size(), 1u);
    }
}

// Hard case 34.
TEST(Responses, StopStrings) {
  const ModelServer server;
  const auto text_for = [&](const Json& stop) {
    Json body = says("ALFA BRAVO CHARLIE");
    body["stop"] = stop;
    const Json whole = server.ask(kPath, body);
    EXPECT_EQ(whole["status"], "completed");
    body["stream"] = true;
    const std::string text = whole["output"][0]["content"][0]["text"];
    EXPECT_EQ(joined(stream_events(server.post(kPath, body)), "response.output_text.delta"), text);
    return text;
  };
  EXPECT_EQ(text_for("VO CH"), "ALFA BRA");
  EXPECT_EQ(text_for("CHARLIE\nZZZZ"), "ALFA BRAVO CHARLIE");
  EXPECT_EQ(text_for({"E", "VO", "VO C"}), "ALFA BRA");
  EXPECT_EQ(text_for("A"), "");
}

// Hard case 45.
TEST(Responses, PromptsThatAreTooLong) {
  const ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 256);
  const Json error = server.refusal(kPath, {{"input", std::string(300, 'x')}});
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("256"), std::string::npos);
  const Json r = server.ask(kPath, {{"input", std::string(200, 'x')}, {"temperature", 0}});
  EXPECT_EQ(r["status"], "incomplete");
  EXPECT_GT(r["usage"]["output_tokens"], 0);
}

}  // namespace
}  // namespace tokamak::test
