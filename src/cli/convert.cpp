// convert: a Hugging Face checkpoint folder becomes a GGUF file.
#include "convert/convert.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
using convert::Conversion;
using convert::PlannedTensor;

nlohmann::ordered_json plan_json(const Conversion& conversion) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const PlannedTensor& tensor : conversion.tensors().tensors)
    tensors.push_back({{"name", tensor.name},
                       {"from", tensor.hf_name},
                       {"type", dtype_name(tensor.type)},
                       {"shape", tensor.shape.to_string()},
                       {"n_bytes", tensor.n_bytes()}});
  return {{"architecture", conversion.model().family->architecture},
          {"name", conversion.name()},
          {"n_bytes", conversion.n_bytes()},
          {"notes", conversion.notes()},
          {"left_out", conversion.tensors().left_out},
          {"tensors", std::move(tensors)}};
}

void print_plan(const Conversion& conversion) {
  std::vector<std::vector<std::string>> keys, tensors = {{"tensor", "type", "shape", "bytes", "from"}};
  for (const convert::MetadataKey& key : conversion.model().keys)
    keys.push_back({key.name, convert::key_text(key.value)});
  keys.push_back({"tokenizer.ggml.model", conversion.tokenizer().vocab.model});
  keys.push_back({"tokenizer.ggml.pre", conversion.tokenizer().vocab.pre.value_or("")});
  for (const PlannedTensor& tensor : conversion.tensors().tensors)
    tensors.push_back({tensor.name, std::string(dtype_name(tensor.type)), tensor.shape.to_string(),
                       std::to_string(tensor.n_bytes()), tensor.hf_name});
  print(text_table(keys, "<<") + "\n" + text_table(tensors, "<<<><"));
}

std::string summary(const Conversion& conversion) {
  return fmt::format("{}, {} tensors, {}", conversion.model().family->architecture, conversion.tensors().tensors.size(),
                     human_bytes(conversion.n_bytes()));
}
}  // namespace

Result<int> convert_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  const bool dry_run = values.flag("--dry-run"), as_json = values.flag("--json");
  TRY(check_no_more_words(arguments, 2));
  if (arguments.words.size() < (dry_run ? 1 : 2))
    return Error{.code = ErrorCode::bad_argument,
                 .what = arguments.words.empty() ? "no folder is named" : "no output file is named",
                 .where = "convert",
                 .hint = "tokamak convert FOLDER OUT.gguf"};
  catch_interrupts(/*terminate_too=*/true);
  const auto start = std::chrono::steady_clock::now();
  const auto conversion = TRY(Conversion::plan(arguments.words[0], {.out_type = values.text("--outtype"),
                                                                    .name = values.text("--name"),
                                                                    .pre = values.text("--pre"),
                                                                    .no_tokenizer = values.flag("--no-tokenizer")}));
  for (const std::string& note : conversion->notes()) talk_line("tokamak: note: " + note);
  if (!dry_run) {
    ProgressBar bar("converting", !as_json);
    TRY(conversion->write(arguments.words[1], [&bar](double fraction) { return bar.update(fraction); }));
  }
  if (as_json) {
    print(plan_json(*conversion).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return 0;
  }
  if (dry_run) print_plan(*conversion);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  talk_line(
      dry_run ? fmt::format("tokamak: would write {}", summary(*conversion))
              : fmt::format("tokamak: {} written ({}) in {:.1f} s", arguments.words[1], summary(*conversion), seconds));
  return 0;
}

}  // namespace tokamak::cli
