// run: one answer to a given prompt, or a chat when there is none.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/answer_printer.h"
#include "cli/chat.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
Json answer_json(const Answer& answer, const Model& model) {
  const GenerateResult& result = answer.result;
  Json tokens = Json::array();
  for (const GeneratedToken& token : result.tokens) tokens.push_back(token.id);
  Json json = {{"model", model.name()}, {"text", answer.text}};
  if (!answer.reasoning.empty()) json["reasoning"] = answer.reasoning;
  json["tokens"] = std::move(tokens);
  json["finish_reason"] = finish_reason_name(result.reason);
  if (result.matched_stop) json["stop"] = *result.matched_stop;
  json["seed"] = result.seed;
  json["n_lost_bytes"] = answer.n_lost_bytes;
  json["timings"] = {{"n_prompt", result.n_prompt},
                     {"n_cached", result.n_cached},
                     {"prefill_seconds", result.prefill_seconds},
                     {"n_generated", result.tokens.size()},
                     {"decode_seconds", result.decode_seconds}};
  return json;
}

// Remarks on how an answer ended that a reader cannot see from the answer.
void talk_of_end(const GenerateResult& result, const Session& session, const SettingValues& values) {
  if (result.reason == FinishReason::context_full)
    talk_line(fmt::format("tokamak: the answer ends here because the context of {} tokens is full (raise --ctx-size)",
                          session.n_ctx()));
  if (talk_is_terminal() || values.flag("--verbose")) talk_line("[" + speed_line(result) + "]");
}

Result<int> answer_once(Conversation& conversation, Session& session, const SettingValues& values,
                        const std::string& prompt) {
  const bool as_json = values.flag("--json");
  AnswerPrinter printer;
  auto answer = conversation.answer(prompt, [&](const OutputEvent& event) { return as_json || printer.show(event); });
  if (!as_json) printer.finish();
  if (!answer) return std::move(answer.error());
  if (as_json)
    print(answer_json(*answer, session.model()).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    talk_of_end(answer->result, session, values);
  return interrupted() ? error_row(ErrorCode::cancelled).exit_status : 0;
}
}  // namespace

Result<int> run_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  if (values.is_set("--dump-ir")) return TRY(print_ir(arguments)), 0;
  const GenerateOptions options = TRY(generate_options(values));
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  const std::optional<std::string> prompt = TRY(given_text(values));
  if (prompt && prompt->empty())
    return Error{.code = ErrorCode::bad_argument, .what = "the prompt is empty", .hint = "give at least one character"};
  if (!prompt && values.flag("--json"))
    return Error{
        .code = ErrorCode::bad_argument, .what = "a chat has no JSON form", .where = "--json", .hint = "give -p"};
  catch_interrupts();
  std::optional<ChatTemplate> chat_template = TRY(choose_template(values, *model));
  const std::unique_ptr<Session> session = TRY(open_session(model, TRY(session_options(values, *model)), values));
  Conversation conversation(*session, std::move(chat_template), options, !values.flag("--json"));
  if (!values.text("--system").empty()) conversation.set_system(values.text("--system"));
  if (prompt) return answer_once(conversation, *session, values, *prompt);
  return chat(conversation, *session);
}

}  // namespace tokamak::cli
