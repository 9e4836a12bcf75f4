#include <fmt/format.h>

#include "cli/command.h"

namespace tokamak::cli {

namespace {
constexpr auto kCommands = std::to_array<Command>({
    {"run", "[MODEL] [flags]", "Answer a prompt, or chat when there is none.", kScopeRun, run_command,
     "tokamak run model.gguf -p \"Why is the sky blue?\""},
    {"inspect", "[MODEL] [flags]", "Show what is in a model file, and whether it can be run.", kScopeInspect,
     inspect_command, "tokamak inspect model.gguf"},
    {"tokenize", "[MODEL [TEXT]] [flags]", "Turn text into token ids, or ids into text.", kScopeTokenize,
     tokenize_command, "tokamak tokenize model.gguf \"Hello\""},
    {"bench", "[MODEL] [flags]", "Measure prefill and decode speed.", kScopeBench, bench_command,
     "tokamak bench model.gguf -p 512 -n 128 -r 5"},
    {"explain", "[MODEL] [flags]", "Show each op of the compiled model: kernel, bytes, time, share of the limit.",
     kScopeExplain, explain_command, "tokamak explain model.gguf --depth 1024"},
    {"serve", "[MODEL] [flags]", "Serve a model to many clients over HTTP.", kScopeServe, serve_command,
     "tokamak serve model.gguf --port 8080"},
    {"plan", "[MODEL] [flags]", "Show the memory that serving a model will take, without loading it.", kScopePlan,
     plan_command, "tokamak plan model.gguf --ctx-size 8192 --parallel 32"},
    {"selftest", "[flags]", "Check every kernel against its definition on this machine.", kScopeSelftest,
     selftest_command, "tokamak selftest"},
    {"convert", "FOLDER OUT [flags]", "Write a Hugging Face checkpoint folder as a GGUF file.", kScopeConvert,
     convert_command, "tokamak convert SmolLM2-135M-Instruct smollm2.gguf"},
    {"quantize", "IN OUT TYPE [flags]", "Write a smaller copy of a model.", kScopeQuantize, quantize_command,
     "tokamak quantize model-f16.gguf model-q4.gguf Q4_K_M", quantize_notes},
    {"split", "IN OUT [flags]", "Write a model as several files, OUT-00001-of-00003.gguf and so on.", kScopeSplit,
     split_command, "tokamak split model.gguf model --split-max-size 2G"},
    {"merge", "IN OUT [flags]", "Write a model of several files as one; IN is any of them.", kScopeMerge, merge_command,
     "tokamak merge model-00001-of-00003.gguf model.gguf"},
    {"imatrix", "[MODEL] -f TEXT [flags]", "Measure which weights matter on a text, for quantize --imatrix.",
     kScopeImatrix, imatrix_command, "tokamak imatrix model-f16.gguf -f calibration.txt -o imatrix.gguf"},
    {"eval", "[MODEL] -f TEXT [flags]", "Measure how well a model predicts a text, or what quantization cost.",
     kScopeEval, eval_command, "tokamak eval model-q4.gguf -f text.txt"},
    {"check-ops", "[MODE] [flags]", "Check every op and fusion rule of a backend against the reference.",
     kScopeCheckOps, check_ops_command, "tokamak check-ops test --op MUL_MAT", check_ops_notes},
    {"synth", "FAMILY OUT [flags]",
     "Write a small model of a family with random weights, for tests (llama-8b, qwen3moe-30b-a3b: of full size).",
     kScopeSynth, synth_command, "tokamak synth qwen3moe qwen3moe.gguf --type Q8_0"},
    {"fusion", "[flags]", "Count which fusion rules fire for models, and compare fused with unfused and reference.",
     kScopeFusion, fusion_command, "tokamak fusion --models dummies --check tests/fusion/CPU.csv"},
    {"docs", "[flags]", "Write the reference pages of this documentation.", kScopeDocs, docs_command,
     "tokamak docs --out docs/reference"},
});
}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string program_help() {
  std::string out =
      "Tokamak runs language models from GGUF files.\n\n"
      "  tokamak COMMAND [MODEL] [flags]\n\nCommands:\n";
  for (const Command& command : kCommands) out += fmt::format("  {:<10} {}\n", command.name, command.summary);
  out +=
      "\nMODEL is the path of a .gguf file (any part of a split one), or of a Hugging Face folder, which is converted\n"
      "into the cache once; without it, the model that ./demo.sh put into ${TOKAMAK_CACHE:-~/.cache/tokamak} is used.\n"
      "IN of quantize may be such a folder too; IN of split and merge, and --base-model, are .gguf files.\n"
      "Results go to standard output, talk to standard error.\n\n"
      "  tokamak COMMAND --help   the flags of a command (--help-all: every one)\n"
      "  tokamak --version\n";
  return out;
}

std::string command_help(const Command& command, bool all) {
  std::string out = fmt::format("{}\n\n  tokamak {} {}\n  e.g. {}\n\n", command.summary, command.name, command.words,
                                command.example);
  out += settings_help(command.scope, all);
  if (command.notes) out += "\n" + command.notes(all);
  if (!all) out += "\n--help-all prints every setting; each can also be set by environment, --temp as TOKAMAK_TEMP.\n";
  return out;
}

std::string commands_markdown() {
  std::string out =
      "# Commands\n\nPrinted by the program from its table of commands. The flags of each are in "
      "[settings.md](settings.md).\n\n"
      "| command | usage | what it does | example |\n|---|---|---|---|\n";
  for (const Command& c : kCommands)
    out += fmt::format("| `{}` | `tokamak {} {}` | {} | `{}` |\n", c.name, c.name, c.words, c.summary, c.example);
  return out;
}

}  // namespace tokamak::cli
