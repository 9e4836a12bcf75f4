// The rows of the settings table.
#include <algorithm>
#include <array>

#include "base/settings.h"
#include "base/thread_pool.h"

namespace tokamak {

namespace {
using enum SettingType;
constexpr double kMaxInt = 2147483647;
constexpr double kMaxSeed = 9007199254740991;  // 2^53 - 1, the largest integer that JSON repeats exactly

constexpr uint32_t kGenerate = kScopeRun | kScopeServe;
constexpr uint32_t kTexts = kScopeImatrix | kScopeEval;  // a text in chunks
constexpr uint32_t kServing = kScopeServe | kScopePlan;
constexpr uint32_t kContext = kGenerate | kScopeBench | kScopeExplain | kScopePlan;
constexpr uint32_t kCompute = kContext | kTexts;
constexpr uint32_t kKernels = kCompute | kScopeSelftest | kScopeCheckOps | kScopeFusion;
constexpr uint32_t kReports = kScopeRun | kScopeBench | kScopeTokenize | kScopeInspect | kScopeExplain | kScopePlan |
                              kScopeSelftest | kScopeConvert | kScopeQuantize | kScopeSplit | kScopeMerge |
                              kScopeCheckOps | kScopeSynth | kScopeFusion | kTexts;

constexpr std::string_view kPrompt = "Prompt", kLength = "Length and end", kSampling = "Sampling",
                           kMachine = "Model and machine", kCrowd = "Many requests", kNetwork = "Network",
                           kMeasure = "Measurement", kCases = "Cases", kConversion = "Conversion",
                           kQuantization = "Quantization", kParts = "Parts", kText = "Text and chunks",
                           kImportance = "Importance matrix", kQuality = "Quality", kDummy = "Dummy model",
                           kFusion = "Fusion", kOutput = "Output";

constexpr auto kSettings = std::to_array<Setting>({
    // flag, short, alias, JSON field, type, min, max, choices, default, scopes, group, common, sentence
    {"--prompt", "-p", "", "prompt", text, 0, 0, "", "", kScopeRun | kScopeTokenize, kPrompt, true,
     "The prompt; without one and without a file, `run` chats."},
    {"--file", "-f", "", "", text, 0, 0, "", "", kScopeRun | kScopeTokenize | kTexts, kPrompt, true,
     "Read the prompt or text from this file; `-` is standard input."},
    {"--system", "-sys", "--system-prompt", "", text, 0, 0, "", "", kScopeRun, kPrompt, true,
     "The system message of the chat."},
    {"--chat-template", "", "", "", text, 0, 0, "", "", kGenerate, kPrompt, false,
     "A Jinja chat template, its path or the name of a known one, instead of the model's own."},
    {"--raw", "", "--no-chat", "", flag, 0, 0, "", "off", kScopeRun, kPrompt, true,
     "Complete the prompt as it stands, without the chat template."},
    {"--ids", "", "", "", text, 0, 0, "", "", kScopeTokenize, kPrompt, true,
     "Token ids, separated by spaces or commas, to turn into text; `-` reads them from standard input."},
    {"--no-bos", "", "", "", flag, 0, 0, "", "off", kScopeTokenize, kPrompt, true,
     "Leave out the tokens that the model wants around a text."},
    {"--no-parse-special", "", "", "", flag, 0, 0, "", "off", kScopeTokenize, kPrompt, true,
     "Take the names of control tokens in the text as plain text."},

    {"--n-predict", "-n", "--predict", "n_predict", integer, -1, kMaxInt, "", "-1", kGenerate, kLength, true,
     "Most tokens to generate; -1 goes on until the model or the context ends."},
    {"--stop", "", "--reverse-prompt", "stop", list, 0, 0, "", "", kGenerate, kLength, true, "Stop before this text."},
    {"--ignore-eos", "", "", "ignore_eos", flag, 0, 0, "", "off", kGenerate, kLength, false,
     "Never choose an end-of-generation token."},

    {"--temp", "", "--temperature", "temperature", number, 0, 100, "", "0.8", kGenerate, kSampling, true,
     "Divides the logits; 0 always takes the most probable token."},
    {"--seed", "-s", "", "seed", integer, -1, kMaxSeed, "", "-1",
     kGenerate | kScopeCheckOps | kScopeSynth | kScopeFusion, kSampling, true,
     "Key of the random numbers; -1 draws one, and is 1 for `check-ops`, `synth` and `fusion`."},
    {"--top-k", "", "", "top_k", integer, -1, kMaxInt, "", "40", kGenerate, kSampling, true,
     "Keep the k most probable tokens; 0 or -1 keeps all."},
    {"--top-p", "", "", "top_p", number, 0, 1, "", "0.95", kGenerate, kSampling, true,
     "Keep the fewest tokens whose probabilities reach this sum; 1 keeps all."},
    {"--min-p", "", "", "min_p", number, 0, 1, "", "0.05", kGenerate, kSampling, true,
     "Keep tokens at least this fraction as probable as the best; 0 keeps all."},
    {"--typical", "", "--typical-p", "typical_p", number, 0, 1, "", "1", kGenerate, kSampling, false,
     "Keep the tokens of most typical surprise whose probabilities reach this sum; 1 keeps all."},
    {"--top-n-sigma", "", "", "top_n_sigma", number, -1, 100, "", "-1", kGenerate, kSampling, false,
     "Keep logits within this many standard deviations of the best; 0 or less keeps all."},
    {"--min-keep", "", "", "min_keep", integer, 0, kMaxInt, "", "0", kGenerate, kSampling, false,
     "No filter (infill is none) leaves fewer tokens than this, and never fewer than 1."},
    {"--repeat-penalty", "", "", "repeat_penalty", number, 0.01, 100, "", "1", kGenerate, kSampling, true,
     "Divides (if negative, multiplies) the logits of recent tokens; 1 is off."},
    {"--repeat-last-n", "", "", "repeat_last_n", integer, -1, kMaxInt, "", "64", kGenerate, kSampling, false,
     "How many recent tokens the penalties see; 0 is off, -1 sees all."},
    {"--presence-penalty", "", "", "presence_penalty", number, -100, 100, "", "0", kGenerate, kSampling, false,
     "Subtracted from the logit of every recent token."},
    {"--frequency-penalty", "", "", "frequency_penalty", number, -100, 100, "", "0", kGenerate, kSampling, false,
     "Subtracted from the logit of a recent token, once per occurrence."},
    {"--dry-multiplier", "", "", "dry_multiplier", number, 0, 100, "", "0", kGenerate, kSampling, false,
     "Strength of the penalty on continuing a repeated sequence (DRY); 0 is off."},
    {"--dry-base", "", "", "dry_base", number, 1, 100, "", "1.75", kGenerate, kSampling, false,
     "The DRY penalty grows by this factor with each repeated token."},
    {"--dry-allowed-length", "", "", "dry_allowed_length", integer, 1, kMaxInt, "", "2", kGenerate, kSampling, false,
     "Repetitions shorter than this many tokens are free of the DRY penalty."},
    {"--dry-penalty-last-n", "", "", "dry_penalty_last_n", integer, -1, kMaxInt, "", "64", kGenerate, kSampling, false,
     "How many recent tokens DRY searches; 0 is off, -1 searches all."},
    {"--dry-sequence-breaker", "", "", "dry_sequence_breakers", list, 0, 0, "", "\\n : \\\" *", kGenerate, kSampling,
     false, "DRY looks for no repetition across this text; `none` alone clears the list."},
    {"--xtc-probability", "", "", "xtc_probability", number, 0, 1, "", "0", kGenerate, kSampling, false,
     "How often all but the least probable of the top choices are removed (XTC); 0 is off."},
    {"--xtc-threshold", "", "", "xtc_threshold", number, 0, 1, "", "0.1", kGenerate, kSampling, false,
     "Probability from which a token is a top choice for XTC; above 0.5 is off."},
    {"--dynatemp-range", "", "", "dynatemp_range", number, 0, 100, "", "0", kGenerate, kSampling, false,
     "The temperature moves by up to this much with the entropy of the choice; 0 is off."},
    {"--dynatemp-exp", "", "", "dynatemp_exponent", number, 0, 100, "", "1", kGenerate, kSampling, false,
     "Exponent on the normalised entropy that sets a moving temperature."},
    {"--mirostat", "", "", "mirostat", integer, 0, 2, "", "0", kGenerate, kSampling, false,
     "Hold the surprise of the text constant (Mirostat 1 or 2) instead of the filters; 0 is off."},
    {"--mirostat-ent", "", "--mirostat-tau", "mirostat_tau", number, 0, 100, "", "5", kGenerate, kSampling, false,
     "The surprise Mirostat aims at, in bits per token."},
    {"--mirostat-lr", "", "--mirostat-eta", "mirostat_eta", number, 0, 10, "", "0.1", kGenerate, kSampling, false,
     "How fast Mirostat corrects."},
    {"--adaptive-target", "", "", "adaptive_target", number, -1, 1, "", "-1", kGenerate, kSampling, false,
     "Choose, after the filters, so that the chosen tokens' probabilities average to this; below 0 is off."},
    {"--adaptive-decay", "", "", "adaptive_decay", number, 0, 0.99, "", "0.9", kGenerate, kSampling, false,
     "How much of that average stays with every token; higher is slower and steadier."},
    {"--samplers", "", "--sampler-seq", "samplers", text, 0, 0, "",
     "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", kGenerate, kSampling, false,
     "The samplers in order, as names separated by `;` or as letters (edskypmxt; also infill, i, and adaptive_p, a)."},
    {"--logit-bias", "-l", "", "logit_bias", list, 0, 0, "", "", kGenerate, kSampling, false,
     "TOKEN_ID+BIAS, TOKEN_ID-BIAS or TOKEN_ID=BIAS adds to a logit; TOKEN_ID=-inf forbids the token."},

    {"--threads", "-t", "", "", integer, 0, kMaxThreads, "", "0", kKernels | kScopeQuantize, kMachine, true,
     "Compute threads; 0 is one per usable core."},
    {"--ctx-size", "-c", "", "", integer, 0, kMaxInt, "", "4096", kContext, kMachine, true,
     "Context in tokens; 0 is what the model was trained for."},
    {"--batch", "-b", "--batch-size", "", integer, 1, 65536, "", "512", kCompute, kMachine, false,
     "Prompt tokens processed in one pass; the answer does not depend on it."},
    {"--cache-type", "", "", "", choice, 0, 0, "f16 f32 bf16 q8_0 f8_e4m3", "f16", kCompute, kMachine, false,
     "Number format of the KV cache; f8_e4m3 is fp8 with a scale per head and token."},
    {"--page-size", "", "", "", integer, 16, 4096, "", "64", kCompute, kMachine, false,
     "Positions per page of the KV cache, a multiple of 16; the answer does not depend on it."},
    {"--backend", "", "", "", choice, 0, 0, "cpu reference cuda", "cpu", kCompute | kScopeCheckOps, kMachine, false,
     "Where the graph runs: `cuda` is an NVIDIA GPU; `reference` is slow and defines what is right."},
    {"--n-gpu-layers", "-ngl", "--gpu-layers", "", text, 0, 0, "", "auto", kCompute, kMachine, true,
     "Last layers, and the output, on the GPU: a number, `all`, or `auto` (as many as fit)."},
    {"--n-cpu-moe", "-ncmoe", "", "", text, 0, 0, "", "auto", kCompute, kMachine, false,
     "Experts of so many first layers stay on the CPU: a number, `all`, or `auto` (as few as needed)."},
    {"--gpu-memory", "", "", "", integer, 0, kMaxInt, "", "0", kCompute, kMachine, false,
     "MiB that weights, KV cache and activations may take of each GPU; `plan` needs none then. 0 is what is free."},
    {"--allow-fallback", "", "", "", flag, 0, 0, "", "off", kCompute, kMachine, false,
     "Run ops that the GPU has no kernel for on the CPU instead of failing."},
    {"--isa", "", "", "", choice, 0, 0, "auto scalar avx2 avx512 neon", "auto", kKernels, kMachine, false,
     "Instruction set of the kernels; `auto` is the best this machine has."},
    {"--activations", "", "", "", choice, 0, 0, "int16 int8", "int16", kCompute | kScopeCheckOps, kMachine, false,
     "Codes that the inputs of quantized matrices are rounded to; int8 is faster and less exact."},
    {"--no-fusion", "", "", "", flag, 0, 0, "", "off", kCompute, kMachine, false,
     "Run every op by itself instead of fused groups."},
    {"--batch-invariant", "", "", "", flag, 0, 0, "", "off", kCompute, kMachine, false,
     "On a GPU, the same bits for a token alone and in any batch, at the price of speed with many; the CPU always does "
     "so."},
    {"--check-tensors", "", "", "", flag, 0, 0, "", "off", kCompute | kScopeInspect, kMachine, false,
     "Read every weight first and refuse infinities and NaN, naming tensor, row and block."},
    {"--dump-ir", "", "", "", text, 0, 0, "", "", kScopeRun | kScopeExplain, kMachine, false,
     "Print the graph after a pass (`after:fuse`) and leave."},

    {"--host", "", "", "", text, 0, 0, "", "127.0.0.1", kScopeServe, kNetwork, true,
     "Address to listen on; 0.0.0.0 is every network of this machine."},
    {"--port", "", "", "", integer, 0, 65535, "", "8080", kScopeServe, kNetwork, true,
     "Port to listen on; 0 takes a free one and prints it."},
    {"--api-key", "", "", "", list, 0, 0, "", "", kScopeServe, kNetwork, true,
     "Key that requests must bring as `Authorization: Bearer KEY` or `X-Api-Key`; repeatable."},
    {"--api-key-file", "", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, true,
     "File with a key on each line; read again when it changes."},
    {"--alias", "-a", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, true, "Name of the model in answers."},
    {"--ssl-cert-file", "", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, false, "Certificate (PEM) for HTTPS."},
    {"--ssl-key-file", "", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, false,
     "Private key (PEM) of the certificate."},
    {"--cors-origin", "", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, false,
     "Web pages of this origin may call the server; `*` is all of them."},
    {"--log-requests", "", "", "", choice, 0, 0, "off on bodies", "on", kScopeServe, kNetwork, false,
     "A line for each request; bodies adds what the client sent, prompts too."},
    {"--pooling", "", "", "", choice, 0, 0, "auto none mean cls last rank", "auto", kScopeServe, kNetwork, false,
     "How the rows of a text become one vector of /v1/embeddings; auto is what the model says, else mean."},
    {"--slot-save-path", "", "", "", text, 0, 0, "", "", kScopeServe, kNetwork, false,
     "Folder that /slots may save to and restore from; the only place that requests can write to."},
    {"--no-web-page", "", "", "", flag, 0, 0, "", "off", kScopeServe, kNetwork, false,
     "Do not serve the page for chatting at `/`."},

    {"--parallel", "-np", "", "", integer, 1, 4096, "", "16", kServing, kCrowd, true,
     "Requests that run at once; others wait."},
    {"--queue-limit", "", "", "", integer, 0, 1000000, "", "256", kScopeServe, kCrowd, true,
     "Requests that may wait; more are refused with status 429 and the time to come back."},
    {"--max-token-gap", "", "", "", number, 1, 60000, "", "250", kScopeServe, kCrowd, true,
     "Milliseconds between two tokens of a stream, at most, while prompts of others are processed."},
    {"--stall-timeout", "", "", "", number, 0.1, 86400, "", "60", kScopeServe, kCrowd, false,
     "Seconds without progress after which a request, or the step that hangs, fails."},
    {"--kv-tokens", "", "", "", integer, 0, kMaxInt, "", "0", kServing, kCrowd, true,
     "Tokens in the KV cache, over all requests and old prompts; 0 is four times --ctx-size."},
    {"--cache-ram", "", "", "", integer, -1, kMaxInt, "", "-1", kServing, kCrowd, true,
     "MiB that prompts and answers of the past may hold; 0 is none, -1 what is free in the KV cache."},
    {"--cache-tokens", "", "", "", integer, 0, kMaxInt, "", "0", kServing, kCrowd, false,
     "Tokens that prompts and answers of the past may hold, unless --cache-ram has room for more; 0 is no limit."},

    {"--n-prompt", "-p", "", "", integer, 0, kMaxInt, "", "512", kScopeBench, kMeasure, true,
     "Prompt tokens of the prefill test; 0 leaves it out."},
    {"--n-gen", "-n", "", "", integer, 0, kMaxInt, "", "128", kScopeBench, kMeasure, true,
     "Tokens of the decode test; 0 leaves it out."},
    {"--depth", "-d", "", "", integer, 0, kMaxInt, "", "0", kScopeBench | kScopeExplain, kMeasure, true,
     "Tokens already in the context when the measurement starts."},
    {"--repetitions", "-r", "", "", integer, 1, 10000, "", "5", kScopeBench | kScopeExplain | kScopeCheckOps, kMeasure,
     true, "Measured runs of each test, after one that is not counted."},

    {"--op", "", "", "", text, 0, 0, "", "", kScopeCheckOps, kCases, true,
     "Only the cases of this op or fusion label, such as MUL_MAT or RMS_NORM+MUL."},
    {"--filter", "", "", "", text, 0, 0, "", "", kScopeCheckOps, kCases, true,
     "Only the cases whose name has a match of this regular expression."},
    {"--every", "", "", "", integer, 1, kMaxInt, "", "1", kScopeCheckOps, kCases, true,
     "Only one in so many of the cases."},

    {"--outtype", "", "", "", choice, 0, 0, "auto f32 f16 bf16 q8_0", "auto", kScopeConvert, kConversion, true,
     "Type of the weights; `auto` is the checkpoint's 16-bit type, and keeps NVFP4 and MXFP4 as they are."},
    {"--name", "", "", "", text, 0, 0, "", "", kScopeConvert, kConversion, true,
     "The model's name in the file; the default is the folder's."},
    {"--pre", "", "", "", text, 0, 0, "", "", kScopeConvert, kConversion, false,
     "How text is cut before tokens are looked up (tokenizer.ggml.pre), for tokenizers that are not recognised."},
    {"--no-tokenizer", "", "", "", flag, 0, 0, "", "off", kScopeConvert, kConversion, false,
     "Write no vocabulary (tokenizer.ggml.model is no_vocab), for folders without a tokenizer: the model knows ids "
     "only."},

    {"--imatrix", "", "", "", text, 0, 0, "", "", kScopeQuantize | kScopeEval, kQuantization, true,
     "Importance matrix (GGUF or .dat): errors count by how much each column matters."},
    {"--tensor-type", "", "", "", list, 0, 0, "", "", kScopeQuantize, kQuantization, true,
     "REGEX=TYPE: tensors whose name has a match get this type; the first that matches decides."},
    {"--tensor-type-file", "", "", "", text, 0, 0, "", "", kScopeQuantize, kQuantization, false,
     "A file of REGEX=TYPE, separated by spaces or lines, after those of --tensor-type."},
    {"--output-tensor-type", "", "", "", text, 0, 0, "", "", kScopeQuantize, kQuantization, true,
     "Type of the output matrix."},
    {"--token-embedding-type", "", "", "", text, 0, 0, "", "", kScopeQuantize, kQuantization, true,
     "Type of the token embedding."},
    {"--leave-output-tensor", "", "", "", flag, 0, 0, "", "off", kScopeQuantize, kQuantization, false,
     "Leave the output matrix as it is."},
    {"--pure", "", "", "", flag, 0, 0, "", "off", kScopeQuantize, kQuantization, true,
     "One type for all matrices instead of the file type's mix."},
    {"--target-bpw", "", "", "", number, 0, 32, "", "0", kScopeQuantize, kQuantization, true,
     "Choose a type per tensor so that weights take at most this many bits on average, at the least measured error."},
    {"--include-weights", "", "", "", list, 0, 0, "", "", kScopeQuantize, kQuantization, false,
     "Use the importance matrix only for tensors with this text in their name."},
    {"--exclude-weights", "", "", "", list, 0, 0, "", "", kScopeQuantize, kQuantization, false,
     "Do not use the importance matrix for tensors with this text in their name."},
    {"--allow-requantize", "", "", "", flag, 0, 0, "", "off", kScopeQuantize, kQuantization, true,
     "Take tensors that are quantized already; they lose quality twice."},
    {"--prune-layers", "", "", "", text, 0, 0, "", "", kScopeQuantize, kQuantization, false,
     "Leave out these layers: numbers separated by commas."},
    {"--override-kv", "", "", "", list, 0, 0, "", "", kScopeQuantize, kQuantization, false,
     "KEY=TYPE:VALUE sets a metadata key of the new file; TYPE is int, float, bool or str."},
    {"--keep-split", "", "", "", flag, 0, 0, "", "off", kScopeQuantize, kQuantization, false,
     "Write as many parts as the source has."},
    {"--dry-run", "", "", "", flag, 0, 0, "", "off", kScopeConvert | kScopeQuantize | kScopeSplit, kQuantization, true,
     "Print what would be done, and the size, and write nothing."},

    {"--split-max-tensors", "", "", "", integer, 1, kMaxInt, "", "128", kScopeSplit, kParts, true,
     "Most tensors in a part; with --split-max-size alone there is no limit."},
    {"--split-max-size", "", "", "", text, 0, 0, "", "", kScopeSplit, kParts, true,
     "Most tensor data in a part: a number with M or G (powers of 1000), such as 2G."},
    {"--no-tensor-first-split", "", "", "", flag, 0, 0, "", "off", kScopeSplit, kParts, true,
     "The first part holds only metadata."},

    {"--chunk-size", "-c", "--ctx-size", "", integer, 8, kMaxInt, "", "512", kTexts, kText, true,
     "Tokens per chunk of the text; `eval` scores the second half of each."},
    {"--chunks", "", "", "", integer, 0, kMaxInt, "", "0", kTexts, kText, true,
     "Most chunks to work on; 0 is all of the text."},

    {"--in-file", "", "", "", list, 0, 0, "", "", kScopeImatrix, kImportance, true,
     "Importance matrix (GGUF or .dat) to add to: repeated, or without a text, several become one."},
    {"--from-chunk", "", "--chunk", "", integer, 0, kMaxInt, "", "0", kScopeImatrix, kImportance, true,
     "Leave out the chunks before this one, which an --in-file covers."},
    {"--output-frequency", "", "", "", integer, 0, kMaxInt, "", "10", kScopeImatrix, kImportance, false,
     "Save after every so many chunks; 0 saves at the end only."},
    {"--process-output", "", "", "", flag, 0, 0, "", "off", kScopeImatrix, kImportance, false,
     "Also measure the output matrix."},

    {"--save-logits", "", "", "", text, 0, 0, "", "", kScopeEval, kQuality, true,
     "Also write the logits of all scored positions to this file, for --base."},
    {"--logits-type", "", "", "", choice, 0, 0, "u16 f32", "u16", kScopeEval, kQuality, false,
     "Number format of --save-logits: u16 rounds each row to 65536 steps, f32 is exact."},
    {"--kl-divergence", "", "", "", flag, 0, 0, "", "off", kScopeEval, kQuality, true,
     "Compare every prediction with those of the --base logits."},
    {"--base", "", "--kl-divergence-base", "", text, 0, 0, "", "", kScopeEval, kQuality, true,
     "Saved logits of the base model; they bring their text, and --file is not needed."},
    {"--tensors", "", "", "", flag, 0, 0, "", "off", kScopeEval, kQuality, true,
     "Compare the weights of each tensor with those of the --base-model; runs nothing."},
    {"--base-model", "", "", "", text, 0, 0, "", "", kScopeEval, kQuality, true,
     "The model file that this one was quantized from."},
    {"--plot", "", "", "", text, 0, 0, "", "", kScopeEval, kQuality, true,
     "Draw the errors of --tensors into this SVG file."},

    {"--type", "", "", "", text, 0, 0, "", "F32", kScopeSynth, kDummy, true,
     "Tensor type of the matrices; rows that its blocks do not fit get another."},
    {"--moe", "", "", "", flag, 0, 0, "", "off", kScopeSynth, kDummy, true, "Only models with experts."},
    {"--dense", "", "", "", flag, 0, 0, "", "off", kScopeSynth, kDummy, true, "Only models without experts."},
    {"--all", "", "", "", text, 0, 0, "", "", kScopeSynth, kDummy, true,
     "Write every family's models to this folder, FAMILY-dense.gguf and FAMILY-moe.gguf."},

    {"--model", "", "", "", text, 0, 0, "", "", kScopeFusion, kFusion, true, "Run this model."},
    {"--models", "", "", "", text, 0, 0, "", "", kScopeFusion, kFusion, true, "Run every .gguf file of this folder."},
    {"--device", "", "", "", text, 0, 0, "", "cpu", kScopeFusion, kFusion, true, "Backend whose fusion is counted."},
    {"--record", "", "", "", text, 0, 0, "", "", kScopeFusion, kFusion, true, "Write the counts to this CSV file."},
    {"--check", "", "", "", text, 0, 0, "", "", kScopeFusion, kFusion, true,
     "Fail when the counts are not those of this CSV file."},
    {"--skip-missing", "", "", "", flag, 0, 0, "", "off", kScopeFusion, kFusion, true,
     "Succeed when this machine lacks the device."},
    {"--structural", "", "", "", flag, 0, 0, "", "off", kScopeFusion, kFusion, true,
     "Count norms, chains of adds and delta nets of the graph itself, without a device; prints a table."},

    {"--out", "-o", "", "", text, 0, 0, "", "docs/reference", kScopeDocs, kOutput, true,
     "Folder that the pages are written to."},
    {"--output-file", "-o", "--out", "", text, 0, 0, "", "imatrix.gguf", kScopeImatrix, kOutput, true,
     "File that the importance matrix is written to."},
    {"--json", "", "", "", flag, 0, 0, "", "off", kReports, kOutput, true, "Print one JSON object instead of text."},
    {"--verbose", "-v", "", "", flag, 0, 0, "", "off", kScopeAll, kOutput, true,
     "Also print the engine's own remarks."},
    {"--help", "-h", "", "", flag, 0, 0, "", "off", kScopeAll, kOutput, true, "Print this page."},
    {"--help-all", "", "", "", flag, 0, 0, "", "off", kScopeAll, kOutput, true, "Print every setting of the command."},
});

constexpr bool share(std::string_view a, std::string_view b) { return !a.empty() && a == b; }

constexpr bool names_are_unique() {
  for (size_t i = 0; i < kSettings.size(); ++i)
    for (size_t k = i + 1; k < kSettings.size(); ++k) {
      const Setting &a = kSettings[i], &b = kSettings[k];
      if (a.flag == b.flag || share(a.json, b.json)) return false;
      if ((a.scopes & b.scopes) == 0) continue;
      if (share(a.short_flag, b.short_flag) || share(a.alias, b.alias) || a.alias == b.flag || a.flag == b.alias)
        return false;
    }
  return true;
}
static_assert(names_are_unique());

constexpr bool rows_are_sane() {
  return std::all_of(kSettings.begin(), kSettings.end(), [](const Setting& s) {
    const bool ranged = s.type == integer || s.type == number;
    return s.flag.starts_with("--") && s.help.ends_with('.') && s.scopes != 0 &&
           (ranged ? s.min < s.max : s.max == 0) && (s.type == choice) == !s.choices.empty();
  });
}
static_assert(rows_are_sane());

constexpr auto kScopes = std::to_array<ScopeRow>({
    {kScopeRun, "run"},
    {kScopeServe, "serve"},
    {kScopeBench, "bench"},
    {kScopeTokenize, "tokenize"},
    {kScopeInspect, "inspect"},
    {kScopeExplain, "explain"},
    {kScopeSelftest, "selftest"},
    {kScopeDocs, "docs"},
    {kScopeConvert, "convert"},
    {kScopeQuantize, "quantize"},
    {kScopeSplit, "split"},
    {kScopeMerge, "merge"},
    {kScopeImatrix, "imatrix"},
    {kScopeEval, "eval"},
    {kScopeCheckOps, "check-ops"},
    {kScopeSynth, "synth"},
    {kScopeFusion, "fusion"},
    {kScopePlan, "plan"},
});
}  // namespace

std::span<const Setting> settings() { return kSettings; }
std::span<const ScopeRow> scopes() { return kScopes; }

}  // namespace tokamak
