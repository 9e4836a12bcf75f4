// The rows of the table of request fields, and its page in the docs.
#include <fmt/format.h>

#include <array>

#include "server/fields.h"

namespace tokamak::server {

namespace {
using enum FieldType;
constexpr auto honoured = Treatment::honoured, ignored = Treatment::ignored, only = Treatment::refused_unless;
constexpr double kInt = 2147483647;
constexpr uint32_t kOpenAiText = kChat | kCompletions;
constexpr uint32_t kNativeText = kNative | kInfill;

// clang-format off
constexpr auto kFields = std::to_array<FieldRow>({
    // --- what is asked ---
    {"model", kAnyGeneration | kEmbeddings | kRerank, text, 0, 0, honoured, {},
     "echoed; the one loaded model answers whatever it says"},
    {"messages", kChat | kMessages, list, 0, 0, honoured, {}, "the conversation"},
    {"prompt", kCompletions | kNative, any, 0, 0, honoured, {}, "text, token ids, or a list mixing both; a list of prompts"},
    {"suffix", kCompletions, text, 0, 0, honoured, {}, "the text after the gap; the model must have tokens for it"},
    {"user", kOpenAiText | kResponses | kEmbeddings, text, 0, 0, honoured, {}, "requests of one user share a turn"},
    {"priority", kAnyGeneration, integer, -1000, 1000, honoured, {}, "higher goes first when requests wait"},

    // --- how it is answered ---
    {"stream", kAnyGeneration, boolean, 0, 0, honoured, {}, "answer as server-sent events"},
    {"stream_options", kOpenAiText, object, 0, 0, honoured, {}, "include_usage: a last event with the usage"},
    {"n", kOpenAiText, integer, 1, 64, honoured, {}, "answers to each prompt"},
    {"n_cmpl", kNative, integer, 1, 64, honoured, {}, "answers to the prompt"},
    {"best_of", kCompletions, any, 0, 0, only, "1", "more than one answer to choose from is not built"},
    {"logprobs", kChat, boolean, 0, 0, honoured, {}, "log-probabilities of the generated tokens"},
    {"logprobs", kCompletions, integer, 0, 20, honoured, {}, "log-probabilities of so many best tokens"},
    {"top_logprobs", kChat, integer, 0, 20, honoured, {}, "log-probabilities of so many best tokens"},
    {"n_probs", kNativeText, integer, 0, 1000, honoured, {}, "log-probabilities of so many best tokens"},
    {"post_sampling_probs", kNativeText, boolean, 0, 0, honoured, {},
     "n_probs are prob and top_probs, the probabilities after the samplers"},
    {"echo", kCompletions, boolean, 0, 0, honoured, {}, "the prompt in front of the answer"},
    {"return_tokens", kNativeText, boolean, 0, 0, honoured, {}, "ids of the generated tokens"},
    {"return_progress", kAnyGeneration, boolean, 0, 0, honoured, {}, "events while the prompt is processed"},
    {"timings_per_token", kAnyGeneration, boolean, 0, 0, honoured, {}, "timings with every event"},
    {"response_fields", kNativeText, list, 0, 0, honoured, {}, "names of the result's fields to be kept"},

    // --- when it ends ---
    {"max_tokens", kOpenAiText, integer, -1, kInt, honoured, {}, "most tokens to generate; -1: no limit of its own"},
    {"max_tokens", kMessages, integer, 1, kInt, honoured, {}, "most tokens to generate"},
    {"max_completion_tokens", kChat, integer, -1, kInt, honoured, {}, "the newer name of max_tokens"},
    {"max_output_tokens", kResponses, integer, 1, kInt, honoured, {}, "most tokens to generate"},
    {"n_predict", kNativeText, integer, -1, kInt, honoured, {}, "most tokens to generate; -1: no limit of its own"},
    {"stop", kAnyGeneration, any, 0, 0, honoured, {}, "text or list of texts that end the answer"},
    {"ignore_eos", kAnyGeneration, boolean, 0, 0, honoured, {}, "never end by itself"},
    {"t_max_predict_ms", kNativeText, number, 0, 1e9, honoured, {},
     "time from the first generated token on; 0: no limit"},

    // --- sampling, beside the settings ---
    {"frequency_penalty", kOpenAiText, number, -2, 2, honoured, {}, "as the setting"},
    {"presence_penalty", kOpenAiText, number, -2, 2, honoured, {}, "as the setting"},
    {"logit_bias", kAnyGeneration, any, 0, 0, honoured, {}, "object of token ids and biases, or list of pairs"},
    {"samplers", kAnyGeneration, any, 0, 0, honoured, {}, "names of the samplers in order"},
    {"dry_sequence_breakers", kAnyGeneration, list, 0, 0, honoured, {}, "texts that end a repetition"},

    // --- structured output, tools, thoughts ---
    {"response_format", kOpenAiText | kNativeText, object, 0, 0, honoured, {},
     "type: text, json_object, json_schema (with its schema), grammar (GBNF) or regex"},
    {"json_schema", kAnyGeneration, any, 0, 0, honoured, {}, "the answer is JSON of this schema"},
    {"grammar", kAnyGeneration, text, 0, 0, honoured, {}, "the answer follows this GBNF grammar; empty: none"},
    {"regex", kAnyGeneration, text, 0, 0, honoured, {}, "the answer as a whole matches this regular expression"},
    {"compact_json", kAnyGeneration, boolean, 0, 0, honoured, {}, "no white space in JSON of a schema"},
    {"grammar_lazy", kAnyGeneration, boolean, 0, 0, honoured, {}, "the grammar binds from the first trigger on"},
    {"grammar_triggers", kAnyGeneration, list, 0, 0, honoured, {},
     "{type: word, token or pattern; value}: what wakes a lazy grammar, which reads the trigger first"},
    {"tools", kChat, list, 0, 0, honoured, {}, "functions that the model may call"},
    {"tool_choice", kChat, any, 0, 0, honoured, {}, "auto, none, required, or the function to call"},
    {"parallel_tool_calls", kChat | kResponses, boolean, 0, 0, honoured, {}, "false: at most one call in an answer"},
    {"functions", kChat, any, 0, 0, only, "[]", "use tools"},
    {"function_call", kChat, any, 0, 0, only, "\"none\"", "use tool_choice"},
    {"reasoning_format", kChat, text, 0, 0, honoured, {},
     "auto: thoughts apart, as reasoning_content; none: as part of the content"},
    {"reasoning_effort", kChat, text, 0, 0, honoured, {},
     "handed to the template; none also sets enable_thinking to false"},
    {"reasoning_budget", kAnyChat, integer, -1, kInt, honoured, {}, "most tokens of one thought; -1: no limit"},
    {"thinking_budget_tokens", kAnyChat, integer, -1, kInt, honoured, {}, "another name of reasoning_budget"},
    {"chat_template_kwargs", kAnyChat, object, 0, 0, honoured, {},
     "handed to the template, enable_thinking and the like"},
    {"add_generation_prompt", kChat, boolean, 0, 0, honoured, {}, "off: the prompt ends with the last message"},
    {"continue_final_message", kChat, boolean, 0, 0, honoured, {}, "the last message is an unfinished answer"},

    // --- responses ---
    {"input", kResponses, any, 0, 0, honoured, {},
     "a text, or items: message, reasoning, function_call, function_call_output"},
    {"instructions", kResponses, text, 0, 0, honoured, {}, "the system message, before those of the input"},
    {"text", kResponses, object, 0, 0, honoured, {}, "format: as response_format; verbosity: the model decides"},
    {"reasoning", kResponses, object, 0, 0, honoured, {},
     "effort: as reasoning_effort; summary: there is none, thoughts come whole"},
    {"tools", kResponses, list, 0, 0, honoured, {},
     "functions; others are left out and named in the header X-Tokamak-Ignored-Tools"},
    {"tool_choice", kResponses, any, 0, 0, honoured, {}, "auto, none, required, a function, or allowed_tools"},
    {"top_logprobs", kResponses, integer, 0, 20, honoured, {}, "log-probabilities of so many best tokens"},
    {"include", kResponses, list, 0, 0, honoured, {},
     "message.output_text.logprobs; what is not there is not included: reasoning.encrypted_content and the like"},
    {"previous_response_id", kResponses, text, 0, 0, honoured, {}, "always unknown: nothing is stored"},
    {"conversation", kResponses, any, 0, 0, honoured, {}, "always unknown: nothing is stored"},
    {"background", kResponses, any, 0, 0, only, "false", "an answer is not stored, so it cannot be fetched later"},
    {"prompt", kResponses, any, 0, 0, only, "{}", "prompts are not stored: send the input"},
    {"truncation", kResponses, any, 0, 0, ignored, {}, "nothing is cut: an input that is too long is refused"},
    {"stream_options", kResponses, any, 0, 0, ignored, {}, "the usage always comes; nothing is obfuscated"},
    {"max_tool_calls", kResponses, any, 0, 0, ignored, {}, "counts tools that a server runs; here the client does"},
    {"metadata", kResponses, object, 0, 0, honoured, {}, "echoed"},

    // --- messages ---
    {"system", kMessages, any, 0, 0, honoured, {}, "a text or blocks of text: the system message"},
    {"tools", kMessages, list, 0, 0, honoured, {},
     "functions; others are left out and named in the header X-Tokamak-Ignored-Tools"},
    {"tool_choice", kMessages, object, 0, 0, honoured, {},
     "type: auto, any, tool (with its name) or none; disable_parallel_tool_use: at most one call"},
    {"thinking", kMessages, object, 0, 0, honoured, {},
     "type: enabled (budget_tokens: most of one thought), disabled, or adaptive: as the template does by itself"},
    {"stop_sequences", kMessages, list, 0, 0, honoured, {}, "texts that end the answer"},
    {"output_config", kMessages, object, 0, 0, honoured, {},
     "effort: as reasoning_effort; format: type json_schema with its schema"},
    {"output_format", kMessages, object, 0, 0, honoured, {}, "as output_config.format"},
    {"metadata", kMessages, object, 0, 0, honoured, {}, "user_id: requests of one user share a turn"},
    {"mcp_servers", kMessages, any, 0, 0, only, "[]", "the client runs the tools"},
    {"container", kMessages, any, 0, 0, only, "{}", "the client runs the tools"},
    {"context_management", kMessages, any, 0, 0, ignored, {}, "nothing is cut: an input that is too long is refused"},
    {"cache_control", kMessages, any, 0, 0, ignored, {}, "prefixes are found by their tokens"},

    // --- cache ---
    {"cache_prompt", kAnyGeneration, boolean, 0, 0, honoured, {}, "reuse and keep the prompt's computed tokens"},
    {"cache_tenant", kAnyGeneration | kSlots, text, 0, 0, honoured, {}, "computed tokens are shared within a tenant only"},
    {"prompt_cache_key", kOpenAiText | kResponses, text, 0, 0, ignored, {}, "prefixes are found by their tokens"},
    {"id_slot", kNativeText, integer, -1, kInt, honoured, {},
     "the slot that this becomes the last request of, for /slots; any request finds any cached prefix"},
    {"n_keep", kNativeText, any, 0, 0, ignored, {}, "the context is never shifted: a full one ends the answer"},
    {"n_discard", kNativeText, any, 0, 0, ignored, {}, "the context is never shifted"},
    {"n_cache_reuse", kNativeText, any, 0, 0, ignored, {}, "only exact prefixes are reused"},
    {"lora", kAnyGeneration, any, 0, 0, only, "[]", "adapters are not built"},

    // --- accepted for the sake of clients ---
    {"metadata", kOpenAiText | kNativeText, any, 0, 0, ignored, {}, "nothing is stored"},
    {"store", kOpenAiText | kResponses, any, 0, 0, ignored, {}, "nothing is stored"},
    {"service_tier", kAnyChat, any, 0, 0, ignored, {}, "there is one"},
    {"safety_identifier", kOpenAiText | kResponses, any, 0, 0, ignored, {}, "nothing is stored"},
    {"verbosity", kChat, any, 0, 0, ignored, {}, "the model decides"},
    {"modalities", kChat, any, 0, 0, only, "[\"text\"]", "answers are text"},
    {"audio", kChat, any, 0, 0, only, "{}", "answers are text"},
    {"prediction", kChat, any, 0, 0, ignored, {}, "every token is computed"},
    {"sse_ping_interval", kNativeText, any, 0, 0, ignored, {}, "the server's own interval"},

    // --- embeddings, rerank ---
    {"input", kEmbeddings, any, 0, 0, honoured, {}, "a text, token ids, or up to 2048 of these; empty ones are refused"},
    {"content", kEmbeddings, any, 0, 0, honoured, {}, "another name of input"},
    {"encoding_format", kEmbeddings, text, 0, 0, honoured, {}, "float, or base64 of little-endian f32"},
    {"dimensions", kEmbeddings, integer, 1, kInt, honoured, {},
     "only the first numbers of each vector, scaled again; no more than the model has"},
    {"embd_normalize", kEmbeddings, integer, -1, 64, honoured, {},
     "vectors are divided by: -1 nothing, 0 largest value (to 32760), 1 sum of values, p the p-norm; 2 by default, -1 with pooling none"},
    {"pooling", kEmbeddings | kRerank, text, 0, 0, honoured, {}, "auto, none, mean, cls or last; auto: see --pooling"},
    {"query", kRerank, text, 0, 0, honoured, {}, "what the documents are to answer"},
    {"documents", kRerank, list, 0, 0, honoured, {}, "up to 2048 texts, or objects with a text"},
    {"texts", kRerank, list, 0, 0, honoured, {}, "another name of documents"},
    {"top_n", kRerank, integer, 1, kInt, honoured, {}, "only so many of the best"},
    {"return_documents", kRerank, boolean, 0, 0, honoured, {}, "the text with each result"},
    {"return_text", kRerank, boolean, 0, 0, honoured, {}, "another name of return_documents"},
    {"method", kRerank, text, 0, 0, honoured, {},
     "model: its head for ranking, refused if it has none; embedding: cosine of pooled vectors, any model can"},
    {"user", kRerank, text, 0, 0, honoured, {}, "requests of one user share a turn"},

    // --- infill, slots ---
    {"input_prefix", kInfill, text, 0, 0, honoured, {}, "the text before the gap; special tokens in it are text"},
    {"input_suffix", kInfill, text, 0, 0, honoured, {}, "the text after the gap"},
    {"prompt", kInfill, any, 0, 0, honoured, {}, "text or token ids right before the gap, behind input_prefix"},
    {"input_extra", kInfill, list, 0, 0, honoured, {}, "other files: objects of filename and text"},
    {"filename", kSlots, text, 0, 0, honoured, {}, "a plain name in the folder of --slot-save-path"},

    {"reasoning_control", kAnyChat, any, 0, 0, ignored, {}, "the control endpoint reaches every answer"},

    // --- control ---
    {"id", kControl, text, 0, 0, honoured, {}, "of the answer"},
    {"action", kControl, text, 0, 0, honoured, {}, "reasoning_end: the thought is closed as if its budget had run out"},

    // --- tokens ---
    {"content", kTokens, any, 0, 0, honoured, {}, "text to be tokenized"},
    {"tokens", kTokens, list, 0, 0, honoured, {}, "ids to be turned into text"},
    {"add_special", kTokens, boolean, 0, 0, honoured, {}, "put the model's special tokens around the text"},
    {"parse_special", kTokens, boolean, 0, 0, honoured, {}, "special tokens may be written in the text"},
    {"with_pieces", kTokens, boolean, 0, 0, honoured, {}, "each token's text, or its bytes where that is no UTF-8"},
});
// clang-format on

std::string api_names(uint32_t apis) {
  constexpr std::pair<Api, std::string_view> kNames[] = {
      {kChat, "chat"},           {kCompletions, "completions"}, {kNative, "completion"},     {kInfill, "infill"},
      {kResponses, "responses"}, {kMessages, "messages"},       {kEmbeddings, "embeddings"}, {kRerank, "rerank"},
      {kSlots, "slots"},         {kTokens, "tokenize"},         {kControl, "control"}};
  if ((apis & kAnyGeneration) == kAnyGeneration) {
    const std::string others = api_names(apis & ~static_cast<uint32_t>(kAnyGeneration));
    return others.empty() ? "all that generate" : "all that generate, " + others;
  }
  std::string out;
  for (const auto& [api, name] : kNames)
    if ((apis & api) != 0) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}
}  // namespace

std::string_view type_name(FieldType type) {
  constexpr std::string_view kNames[] = {"true or false", "an integer", "a number", "text",
                                         "a list",        "an object",  "any"};
  return kNames[static_cast<size_t>(type)];
}

std::span<const FieldRow> field_table() { return kFields; }

std::string fields_markdown() {
  std::string out =
      "# Request fields\n\nPrinted by the program from `src/server/field_table.cpp`. Null counts as absent. Sampling "
      "fields are\nthose of [settings](settings.md) with a JSON name. A field that is in no table is ignored.\n\n"
      "| field | endpoints | value | treatment | meaning |\n|---|---|---|---|---|\n";
  for (const FieldRow& row : kFields) {
    const std::string treatment = row.treatment == honoured  ? "honoured"
                                  : row.treatment == ignored ? "ignored"
                                                             : fmt::format("only `{}`", row.only);
    std::string value(type_name(row.type));
    if (row.min != row.max) value += fmt::format(", {} to {}", row.min, row.max);
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, api_names(row.apis), value, treatment, row.meaning);
  }
  return out;
}

}  // namespace tokamak::server
