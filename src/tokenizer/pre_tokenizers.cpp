#include "tokenizer/pre_tokenizers.h"

namespace tokamak {

namespace {

constexpr SplitStep regex(std::string_view pattern) { return {SplitKind::regex, pattern}; }

constexpr std::string_view kGpt2Pattern = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCasedWords3Pattern =  // o200k, up to three digits
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3Tail =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloomPattern = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

constexpr SplitRules kDefault{
    "default", {regex(R"([\p{P}\$\+<=>\^~\|]+)"), regex(kGpt2Pattern), regex(R"(\p{N}+)"), regex("[0-9][0-9][0-9]")}};
constexpr SplitRules kLlama3{"llama3",
                             {regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kMinicpm5{
    "minicpm5",
    {regex(R"(\p{N}{1,3})"), regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                                   R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kJais2{
    "jais2",
    {regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
           R"(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|)"
           R"(\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})")}};
constexpr SplitRules kQwen2{"qwen2", {regex(kQwen2Pattern)}};
constexpr SplitRules kQwen35{"qwen35",
                             {regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                                    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kGpt2{"gpt2", {regex(kGpt2Pattern)}};
constexpr SplitRules kDigitsGpt2{"digits-gpt2", {regex(R"(\p{N})"), regex(kGpt2Pattern)}};
constexpr SplitRules kFalcon{"falcon",
                             {regex(R"([\p{P}\$\+<=>\^~\|`]+)"), regex(kGpt2Pattern), regex("[0-9][0-9][0-9]")}};
constexpr SplitRules kDeepseekLlm{
    "deepseek-llm",
    {regex(R"([\r\n])"),
     regex(R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
           R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
           R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
           R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
           R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
           R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
           R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
           R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"
           R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
           R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
           R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
           R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
           R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
           R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
           R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)"),
     regex("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), regex(R"(\s+$)"), regex("[一-龥ࠀ-一가-\uD7FF]+"),
     regex(R"(\p{N}+)")}};
constexpr SplitRules kDeepseekCoder{"deepseek-coder",
                                    {regex(R"([\r\n])"), regex(R"(\s?\p{L}+)"), regex(R"(\s?\p{P}+)"),
                                     regex("[一-龥ࠀ-一가-\uD7FF]+"), regex(R"(\p{N})")}};
constexpr SplitRules kDeepseekV3{"deepseek-v3",
                                 {regex(R"(\p{N}{1,3})"), regex("[一-龥\u3040-ゟ゠-ヿ]+"), regex(kDeepseek3Tail)}};
constexpr SplitRules kSpark25{
    "spark2_5",
    {regex(R"(\p{N}{1,3})"), regex("[一-龥\u3040-ゟ゠-ヿ]+"),
     regex(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
           R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"),
     regex(R"(\p{N})")}};
constexpr SplitRules kYoutu{
    "youtu",
    {regex("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+"),
     regex(
         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
         R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kAfmoe{
    "afmoe",
    {{{SplitKind::group_numbers, ""},
      regex("[一-\u9FFF㐀-䶿\uF900-\uFAFF\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2FDFเ-\u0E7F\u0E80-\u0EFFក-"
            "\u17FFက-႟ꩠ-ꩿꧠ-\uA9FF가-\uD7AFᄀ-ᇿ]+"),
      regex(kDeepseek3Tail)}}};
// Classes minus Han are written as complements: [^ other general categories, Han ]. PCRE2 reads a bare \p{Han} as
// Script_Extensions, which has CJK punctuation too.
constexpr SplitRules kKimiK2{
    "kimi-k2",
    {regex(
        R"(\p{sc:Han}+|)"
        R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)"
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kBloom{"bloom", {regex(kBloomPattern)}};
constexpr SplitRules kViking{"viking", {regex(kBloomPattern), regex(R"(\p{N})")}};
constexpr SplitRules kTekken{"tekken",
                             {regex(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kGpt4o{"gpt-4o", {regex(kCasedWords3Pattern)}};
constexpr SplitRules kTinyAya{"tiny_aya", {{{SplitKind::group_digit_words, ""}, regex(kCasedWords3Pattern)}}};
constexpr SplitRules kSuperbpe{"superbpe", {{regex(R"(\p{N}+)"), {SplitKind::cut_digits, ""}}}};
constexpr SplitRules kBailing{
    "bailingmoe",
    {regex(R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
           R"(\s*[\r\n]|\s+(?!\S)|\s+)")}};
constexpr SplitRules kSeedCoder{
    "seed-coder",
    {regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
           R"(\s*[\r\n]+|\s+(?!\S)|\s+)")}};
// Possessive where nothing can follow, so that long texts need no backtracking memory.
constexpr SplitRules kExaoneMoe{
    "exaone-moe",
    {regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}|)"
           R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")}};
constexpr SplitRules kUfakzeka{
    "ufakzeka", {regex(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}};
constexpr SplitRules kChameleon{"chameleon",
                                {regex("<sentinel:[0-9]+>"), regex("IMGIMG[A-I]{1,4}Z"), regex(R"([\t\n]|    |  )"),
                                 regex(R"(\p{N})"), regex(R"([\p{P}!-/:-@\[-`{-~])"), regex(kGpt2Pattern)}};
constexpr SplitRules kLaguna{"laguna", {regex(R"([^\n]+|[\n]+)"), regex(kQwen2Pattern)}};
constexpr SplitRules kLines{"lines", {regex(R"([^\n]+|[\n]+)")}};
constexpr SplitRules kWords{"words", {{{SplitKind::words, R"(\S+)"}}}};

constexpr auto kPreTokenizers = std::to_array<PreTokenizer>({
    {.name = "default", .rules = &kDefault, .clean_spaces = true},
    {.name = "llama3", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "llama-v3", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "llama-bpe", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "falcon3", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "falcon-h1", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "pixtral", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "midm-2.0", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "lfm2", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "jina-v5-nano", .rules = &kLlama3, .ignore_merges = true, .add_bos = true, .clean_spaces = true},
    {.name = "dbrx", .rules = &kLlama3, .clean_spaces = true},
    {.name = "smaug-bpe", .rules = &kLlama3, .clean_spaces = true},
    {.name = "glm4", .rules = &kLlama3, .clean_spaces = true},
    {.name = "chatglm-bpe", .rules = &kLlama3, .clean_spaces = true},
    {.name = "minicpm5", .rules = &kMinicpm5, .ignore_merges = true, .clean_spaces = true},
    {.name = "jais-2", .rules = &kJais2, .clean_spaces = true},
    {.name = "qwen2", .rules = &kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .rules = &kQwen2},
    {.name = "kormo", .rules = &kQwen2},
    {.name = "f2llmv2", .rules = &kQwen2},
    {.name = "megrez", .rules = &kQwen2},
    {.name = "stablelm2", .rules = &kQwen2, .clean_spaces = true, .nfc = true},
    {.name = "hunyuan", .rules = &kQwen2},
    {.name = "solar-open", .rules = &kQwen2},
    {.name = "grok-2", .rules = &kQwen2},
    {.name = "qwen35", .rules = &kQwen35, .nfc = true},
    {.name = "gpt-2", .rules = &kGpt2, .clean_spaces = true},
    {.name = "phi-2", .rules = &kGpt2, .clean_spaces = true},
    {.name = "jina-es", .rules = &kGpt2, .clean_spaces = true},
    {.name = "jina-de", .rules = &kGpt2, .clean_spaces = true},
    {.name = "gigachat", .rules = &kGpt2, .clean_spaces = true},
    {.name = "jina-v2-es", .rules = &kGpt2, .clean_spaces = true},
    {.name = "jina-v2-de", .rules = &kGpt2, .clean_spaces = true},
    {.name = "a.x-4.0", .rules = &kGpt2, .clean_spaces = true},
    {.name = "mellum", .rules = &kGpt2, .clean_spaces = true},
    {.name = "modern-bert", .rules = &kGpt2, .clean_spaces = true, .nfc = true},
    {.name = "exaone4", .rules = &kGpt2, .clean_spaces = true},
    {.name = "mpt", .rules = &kGpt2, .clean_spaces = true, .nfc = true},
    {.name = "olmo", .rules = &kGpt2, .clean_spaces = true, .nfc = true},
    {.name = "jais", .rules = &kGpt2, .clean_spaces = true},
    {.name = "trillion", .rules = &kGpt2},
    {.name = "granite-docling", .rules = &kGpt2},
    {.name = "jina-v1-en", .rules = &kGpt2, .add_sep = true, .clean_spaces = true},
    {.name = "jina-v2-code", .rules = &kGpt2, .add_sep = true, .clean_spaces = true},
    {.name = "roberta-bpe", .rules = &kGpt2, .add_sep = true, .clean_spaces = true},
    {.name = "starcoder", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "refact", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "command-r", .rules = &kDigitsGpt2, .nfc = true},
    {.name = "smollm", .rules = &kDigitsGpt2},
    {.name = "codeshell", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "exaone", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "minerva-7b", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "mellum2", .rules = &kDigitsGpt2, .clean_spaces = true},
    {.name = "falcon", .rules = &kFalcon, .clean_spaces = true},
    {.name = "deepseek-llm", .rules = &kDeepseekLlm},
    {.name = "deepseek-coder", .rules = &kDeepseekCoder},
    {.name = "deepseek-v3", .rules = &kDeepseekV3},
    {.name = "hunyuan-dense", .rules = &kDeepseekV3},
    {.name = "joyai-llm", .rules = &kDeepseekV3},
    {.name = "hy_v4", .rules = &kDeepseekV3},
    {.name = "spark2_5", .rules = &kSpark25},
    {.name = "youtu", .rules = &kYoutu, .ignore_merges = true},
    {.name = "afmoe", .rules = &kAfmoe},
    {.name = "kimi-k2", .rules = &kKimiK2},
    {.name = "bloom", .rules = &kBloom, .clean_spaces = true},
    {.name = "gpt3-finnish", .rules = &kBloom, .clean_spaces = true},
    {.name = "poro-chat", .rules = &kBloom},
    {.name = "viking", .rules = &kViking},
    {.name = "tekken", .rules = &kTekken, .ignore_merges = true, .add_bos = true},
    {.name = "gpt-4o", .rules = &kGpt4o},
    {.name = "llama4", .rules = &kGpt4o},
    {.name = "kanana2", .rules = &kGpt4o},
    {.name = "talkie", .rules = &kGpt4o},
    {.name = "minimax-m2", .rules = &kGpt4o},
    {.name = "granite-embed-multi-97m", .rules = &kGpt4o, .ignore_merges = true},
    {.name = "tiny_aya", .rules = &kTinyAya},
    {.name = "cohere2moe", .rules = &kTinyAya},
    {.name = "superbpe", .rules = &kSuperbpe},
    {.name = "bailingmoe", .rules = &kBailing},
    {.name = "bailingmoe2", .rules = &kBailing},
    {.name = "llada-moe", .rules = &kBailing},
    {.name = "seed-coder", .rules = &kSeedCoder},
    {.name = "exaone-moe", .rules = &kExaoneMoe},
    {.name = "ufakzeka", .rules = &kUfakzeka},
    {.name = "chameleon", .rules = &kChameleon, .add_bos = true},
    {.name = "laguna", .rules = &kLaguna},
    {.name = "gemma4", .rules = &kLines, .add_bos = true, .characters = true, .escape = true, .clean_spaces = true},
    {.name = "granite-embed-multi-311m", .rules = &kLines, .characters = true, .escape = true, .clean_spaces = true},
    {.name = "sarvam-moe", .rules = &kLines, .characters = true, .escape = true},
    {.name = "whitespace", .rules = &kWords, .characters = true, .clean_spaces = true},
});

constexpr bool names_are_unique() {
  for (size_t i = 0; i < kPreTokenizers.size(); ++i)
    for (size_t j = i + 1; j < kPreTokenizers.size(); ++j)
      if (kPreTokenizers[i].name == kPreTokenizers[j].name) return false;
  return true;
}
static_assert(names_are_unique());

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& row : kPreTokenizers)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace tokamak
