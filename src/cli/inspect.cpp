// inspect: what is in a model file, and whether it can be run.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "arch/architectures.h"
#include "base/utf8.h"
#include "chat/chat_template.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"
#include "tokenizer/from_gguf.h"

namespace tokamak::cli {

namespace {
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

struct TypeTotal {
  uint64_t n_tensors = 0, n_bytes = 0, n_elements = 0;
};

// Everything found out about one file. What could not be read holds the reason.
struct Findings {
  GgufFile file;
  Result<arch::Hparams> hparams;
  Result<Tokenizer> tokenizer;
  Result<ChatTemplate> chat_template;  // only with has_template
  bool has_template = false;
  Result<std::shared_ptr<const Model>> model;  // the verdict
  Result<void> tensors;                        // with --check-tensors
  std::map<std::string, TypeTotal, std::less<>> totals;
  TypeTotal total;
};

std::string token_spelling(const Tokenizer& tokenizer, int32_t id) {
  return id == kNoToken ? std::string() : tokenizer.token_text(id);
}

Result<ChatTemplate> read_template(const GgufFile& file, const Result<Tokenizer>& tokenizer) {
  const std::string source(TRY(file.get_string(kTemplateKey)));
  const auto spelling = [&](int32_t TokenRoles::*role) {
    return tokenizer ? token_spelling(*tokenizer, tokenizer->roles().*role) : std::string();
  };
  return ChatTemplate::parse(source, spelling(&TokenRoles::bos), spelling(&TokenRoles::eos));
}

Result<Findings> examine(const std::filesystem::path& path, const SettingValues& values) {
  GgufFile file = TRY(GgufFile::open(path));
  auto hparams = arch::read_hparams(file);
  auto tokenizer = load_tokenizer(file);
  auto chat_template = read_template(file, tokenizer);
  Findings found{.file = std::move(file),
                 .hparams = std::move(hparams),
                 .tokenizer = std::move(tokenizer),
                 .chat_template = std::move(chat_template),
                 .model = Model::open(path)};
  found.tensors = check_tensors_if_asked(found.file, values);
  if (!found.tensors && found.model) found.model = found.tensors.error();
  found.has_template = found.file.has(kTemplateKey);
  for (const GgufTensor& tensor : found.file.tensors())
    for (TypeTotal* total : {&found.total, &found.totals[std::string(dtype_name(tensor.type))]}) {
      ++total->n_tensors;
      total->n_bytes += tensor.n_bytes;
      total->n_elements += static_cast<uint64_t>(tensor.shape.n_elements());
    }
  return found;
}

// Bytes of one token in an f16 KV cache.
int64_t kv_bytes_per_token(const arch::Hparams& hp) {
  int64_t n = 0;
  for (const arch::LayerHparams& layer : hp.layers)
    if (!layer.is_delta_net) n += layer.n_head_kv * (hp.head_dim_k + hp.head_dim_v) * 2;
  return n;
}

double bits_per_weight(const TypeTotal& total) {
  return total.n_elements == 0 ? 0 : 8.0 * static_cast<double>(total.n_bytes) / static_cast<double>(total.n_elements);
}

struct Fact {
  std::string name;
  Json value;
};

// A value that differs between layers is shown as its range.
Fact layer_fact(std::string name, const arch::Hparams& hp, int64_t arch::LayerHparams::*member) {
  int64_t low = hp.layers.front().*member, high = low;
  for (const arch::LayerHparams& layer : hp.layers) {
    low = std::min(low, layer.*member);
    high = std::max(high, layer.*member);
  }
  return {std::move(name), low == high ? Json(low) : Json({low, high})};
}

std::vector<Fact> hparam_facts(const arch::Hparams& hp) {
  std::vector<Fact> facts = {{"n_layer", hp.n_layer},       {"n_embd", hp.n_embd},
                             {"n_vocab", hp.n_vocab},       {"n_ctx_train", hp.n_ctx_train},
                             {"head_dim_k", hp.head_dim_k}, {"head_dim_v", hp.head_dim_v}};
  if (!hp.layers.empty()) {
    facts.push_back(layer_fact("n_head", hp, &arch::LayerHparams::n_head));
    facts.push_back(layer_fact("n_head_kv", hp, &arch::LayerHparams::n_head_kv));
    facts.push_back(layer_fact("n_ff", hp, &arch::LayerHparams::n_ff));
    facts.push_back(layer_fact("sliding_window", hp, &arch::LayerHparams::window));
    facts.push_back({"rope_theta", hp.layers.front().rope.theta});
    facts.push_back({"n_rot", hp.layers.front().rope.n_rot});
  }
  if (hp.moe.n_expert > 0) {
    facts.push_back({"n_expert", hp.moe.n_expert});
    facts.push_back({"n_expert_used", hp.moe.n_used});
  }
  facts.push_back({"norm_eps", hp.norm_eps});
  facts.push_back({"kv_bytes_per_token_f16", kv_bytes_per_token(hp)});
  return facts;
}

std::vector<Fact> tokenizer_facts(const Tokenizer& tokenizer) {
  constexpr std::string_view kKinds[] = {"none", "byte-level BPE", "SentencePiece BPE"};
  const TokenRoles& roles = tokenizer.roles();
  std::vector<Fact> facts = {{"kind", kKinds[static_cast<size_t>(tokenizer.kind())]},
                             {"pre_tokenizer", tokenizer.pre_tokenizer()},
                             {"n_vocab", tokenizer.n_vocab()},
                             {"adds_bos", tokenizer.adds_bos()},
                             {"adds_eos", tokenizer.adds_eos()}};
  const auto role = [&](std::string name, int32_t id) {
    if (id != kNoToken) facts.push_back({std::move(name), fmt::format("{} {}", id, tokenizer.token_text(id))});
  };
  role("bos", roles.bos);
  role("eos", roles.eos);
  role("eot", roles.eot);
  role("unk", roles.unk);
  role("pad", roles.pad);
  Json ends = Json::array();
  for (int32_t id : tokenizer.eog_tokens()) ends.push_back(id);
  facts.push_back({"end_of_generation", std::move(ends)});
  return facts;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void print_facts(std::string_view heading, const std::vector<Fact>& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const Fact& fact : facts)
    rows.push_back({fact.name, fact.value.is_string() ? fact.value.get<std::string>() : dump(fact.value)});
  print(fmt::format("\n{}\n{}", heading, text_table(rows, "<<")));
}

std::string reason(const Error& error) { return error.message(); }

void print_parts(const Findings& found) {
  const GgufFile& file = found.file;
  std::vector<std::vector<std::string>> rows = {{"type", "tensors", "elements", "bytes", "bits/weight"}};
  const auto add = [&rows](std::string_view name, const TypeTotal& total) {
    rows.push_back({std::string(name), std::to_string(total.n_tensors), human_count(total.n_elements),
                    human_bytes(total.n_bytes), fmt::format("{:.2f}", bits_per_weight(total))});
  };
  for (const auto& [name, total] : found.totals) add(name, total);
  add("all", found.total);
  print("\nTypes\n" + text_table(rows, "<>>>>"));

  rows = {};
  for (const GgufValue& value : file.values())
    rows.push_back({std::string(value.key()), value.type_name(), value.to_display()});
  print(fmt::format("\nMetadata, {} entries\n{}", rows.size(), text_table(rows, "<<<")));

  rows = {};
  for (const GgufTensor& tensor : file.tensors())
    rows.push_back(
        {tensor.name, std::string(dtype_name(tensor.type)), tensor.shape.to_string(), human_bytes(tensor.n_bytes)});
  print(fmt::format("\nTensors, {}\n{}", rows.size(), text_table(rows, "<<<>")));
}

void print_text(const Findings& found, const std::filesystem::path& path, bool verbose) {
  const GgufFile& file = found.file;
  const auto name = file.get_string_or("general.name", "");
  const auto architecture = file.get_string_or("general.architecture", "");
  print_facts("File", {{"path", path.string()},
                       {"format", fmt::format("GGUF version {}, alignment {}", file.version(), file.alignment())},
                       {"size", fmt::format("{} in {} file{}", human_bytes(file.n_bytes()), file.n_parts(),
                                            file.n_parts() == 1 ? "" : "s")},
                       {"name", replace_invalid_utf8(name.value_or(""))},
                       {"architecture", replace_invalid_utf8(architecture.value_or(""))},
                       {"parameters", fmt::format("{} ({:.2f} bits each)", human_count(found.total.n_elements),
                                                  bits_per_weight(found.total))},
                       {"verdict", found.model ? "can be run" : "cannot be run: " + reason(found.model.error())}});
  if (found.hparams)
    print_facts("Hyperparameters", hparam_facts(*found.hparams));
  else
    print(fmt::format("\nHyperparameters\n  unknown: {}\n", reason(found.hparams.error())));
  if (found.tokenizer)
    print_facts("Tokenizer", tokenizer_facts(*found.tokenizer));
  else
    print(fmt::format("\nTokenizer\n  unusable: {}\n", reason(found.tokenizer.error())));
  if (!found.has_template)
    print("\nChat template\n  none\n");
  else if (!found.chat_template)
    print(fmt::format("\nChat template\n  unusable: {}\n", reason(found.chat_template.error())));
  else
    print(fmt::format("\nChat template\n  {} bytes{}{}\n", found.chat_template->source().size(),
                      found.chat_template->abilities().shows_tools ? ", knows tools" : "",
                      verbose ? ":\n" + found.chat_template->source() : " (-v prints it)"));
  print_parts(found);
}

Json facts_json(const std::vector<Fact>& facts) {
  Json json = Json::object();
  for (const Fact& fact : facts) json[fact.name] = fact.value;
  return json;
}

Json to_json(const Findings& found, const std::filesystem::path& path) {
  const GgufFile& file = found.file;
  Json json = {{"path", path.string()},
               {"version", file.version()},
               {"alignment", file.alignment()},
               {"n_parts", file.n_parts()},
               {"n_bytes", file.n_bytes()},
               {"n_params", found.total.n_elements},
               {"bits_per_weight", bits_per_weight(found.total)},
               {"runnable", found.model.has_value()}};
  if (!found.model) json["reason"] = reason(found.model.error());
  if (found.hparams) json["hparams"] = facts_json(hparam_facts(*found.hparams));
  if (found.tokenizer) json["tokenizer"] = facts_json(tokenizer_facts(*found.tokenizer));
  if (found.has_template) json["chat_template"] = file.get_string_or(kTemplateKey, "").value_or("");
  for (const auto& [name, total] : found.totals)
    json["types"][name] = {
        {"n_tensors", total.n_tensors}, {"n_elements", total.n_elements}, {"n_bytes", total.n_bytes}};
  for (const GgufValue& value : file.values())
    json["metadata"].push_back(
        {{"key", value.key()}, {"type", value.type_name()}, {"size", value.size()}, {"value", value.to_display()}});
  for (const GgufTensor& tensor : file.tensors()) {
    Json shape = Json::array();
    for (int i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", dtype_name(tensor.type)},
                               {"shape", std::move(shape)},
                               {"n_bytes", tensor.n_bytes},
                               {"offset", tensor.offset},
                               {"part", tensor.part}});
  }
  return json;
}
}  // namespace

Result<int> inspect_command(const Arguments& arguments) {
  TRY(check_no_more_words(arguments));
  const std::filesystem::path path = TRY(model_path(arguments));
  const Findings found = TRY(examine(path, arguments.values));
  if (arguments.values.flag("--json"))
    print(to_json(found, path).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    print_text(found, path, arguments.values.flag("--verbose"));
  return found.tensors ? 0 : 1;
}

}  // namespace tokamak::cli
