#!/usr/bin/env python3
"""Compares Tokamak's token ids with Hugging Face's, and makes the golden file of the C++ tests.

  tokenizer_oracle.py compare MODEL.gguf --tool build/bin/tokenize_tool
      builds the model's Hugging Face tokenizer from the GGUF file, offline, and compares ids over a generated corpus
  tokenizer_oracle.py golden [--check]
      trains tiny vocabularies with `tokenizers` and writes tests/golden/tokenizer/tiny.json (or compares with it)

Needs: gguf, tokenizers, transformers (compare only).
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/tokenizer/tiny.json"

# --- corpus -----------------------------------------------------------------------------------------------------------

SCRIPTS = [  # code-point ranges, cut to assigned characters below
    (0x00A1, 0x024F), (0x0250, 0x02FF), (0x0300, 0x036F), (0x0370, 0x03FF), (0x0400, 0x052F), (0x0531, 0x058A),
    (0x0591, 0x05F4), (0x0600, 0x06FF), (0x0700, 0x074F), (0x0780, 0x07B1), (0x0900, 0x097F), (0x0980, 0x09FE),
    (0x0A01, 0x0A76), (0x0A81, 0x0AFF), (0x0B01, 0x0B77), (0x0B82, 0x0BFA), (0x0C00, 0x0C7F), (0x0C80, 0x0CF2),
    (0x0D00, 0x0D7F), (0x0D81, 0x0DF4), (0x0E01, 0x0E5B), (0x0E81, 0x0EDF), (0x0F00, 0x0FDA), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x139F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x16A0, 0x16F8),
    (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1D00, 0x1DFF), (0x1E00, 0x1FFE), (0x2000, 0x206F), (0x2070, 0x209C),
    (0x20A0, 0x20C0), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x2800, 0x28FF),
    (0x2C00, 0x2DFF), (0x2E80, 0x2FD5), (0x3000, 0x303F), (0x3041, 0x30FF), (0x3105, 0x31BF), (0x3200, 0x33FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFC), (0xA000, 0xA4C6), (0xA640, 0xA69F), (0xAC00, 0xD7A3), (0xF900, 0xFAD9),
    (0xFB00, 0xFDFF), (0xFE00, 0xFE6B), (0xFF01, 0xFFEE), (0x10000, 0x100FA), (0x10330, 0x1034A), (0x10400, 0x104FB),
    (0x10900, 0x1091F), (0x12000, 0x12399), (0x13000, 0x1342E), (0x1D100, 0x1D1E8), (0x1D400, 0x1D7FF),
    (0x1E900, 0x1E95F), (0x1F000, 0x1F0F5), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FC), (0x1F900, 0x1F9FF),
    (0x20000, 0x2A6DD), (0xE000, 0xE0FF),
]
WORDS = """the of and to in is was for that with as his on by at it from be are this had not but have an which were
they you all their one there been when who will more would if no out so what up its about than into them can only other
new some could time these two may then do first any my now such like our over man me even most made after also did many
before must through back years where much your way well down should because each just those people how too little state
naïve façade über straße ångström señor crème brûlée Zürich İstanbul ΑΘΗΝΑ Ελλάδα ελληνικά Привет, мир! Съешь ещё этих
мягких французских булок Це перевірка 你好，世界 今天天气很好 繁體中文測試 こんにちは世界 カタカナ ひらがな 한국어 테스트
입니다 שלום עולם مرحبا بالعالم السلام عليكم नमस्ते दुनिया हिन्दी தமிழ் ไทยภาษา ภาษาไทย tiếng Việt Đặng""".split()
CODE = ["int main(void) {\n\tint x = 0;\n\treturn x++ << 2;\n}\n", "def f(a, *b, **c):\n    return {k: v for k, v in c.items()}\n",
        "<div class=\"a\">&nbsp;</div>\n", "SELECT * FROM t WHERE id >= 10 AND name LIKE '%x%';\n",
        "x = arr[i][j] != nullptr ? &arr[0] : ~0x7FFF'FFFFul;\n", "\\begin{align} \\frac{a}{b} &= c \\\\ \\end{align}\n",
        "if (a&&b||!c) { /* note */ goto end; } // done\r\n", "#!/bin/sh\nset -euo pipefail\necho \"${1:-none}\" | sed 's/x/y/g'\n",
        "{\"k\": [1, 2.5e-3, null, true], \"s\": \"\\u00e9\\n\"}\n", "fn g<'a, T: Clone>(x: &'a [T]) -> Option<&'a T> { x.first() }\n"]
EMOJI = ["🦔", "👩‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷🇯🇵", "👍🏽", "❤️", "🤷🏿‍♀️", "1️⃣", "☺", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
CONTRACTIONS = ["I'm", "you're", "he's", "WE'LL", "They'D", "can't", "I'VE", "o'clock", "'tis", "rock'n'roll", "it''s",
                "don’t", "'s", "'S", " 's", "X's", "'re're", "'ſ", "d'être"]
ODD = [chr(c) for c in range(32)] + ["\x1b[0m", "\x7f", "\x85", "\U00050000", "\U000e0001", "\u00a0", "\u00ad", "\u180e", "\u200b",
       "\u200c", "\u200d", "\u2028", "\u2029", "\u202e", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\ufffd",
       "\ufffe", "\U0010ffff", "e\u0301", "a\u0308\u0323", "\u0301", "ﷺ", "ﬁ", "Å", "\u212b", "가", "\u1100\u1161", "▁", "▁▁",
       "Ġ", "Ċ"]
SPACES = [" ", "\t", "\n", "\r\n", "\r", "  ", " \n", "\n ", "\t ", "\u00a0", "\u3000"]


def assigned(low, high):
    return [chr(c) for c in range(low, high + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def corpus(seed, n_chars, specials):
    """Hostile documents; their lengths sum to at least n_chars characters."""
    rng = random.Random(seed)
    alphabets = [a for a in (assigned(*r) for r in SCRIPTS) if a]

    def piece():
        kind = rng.randrange(16)
        if kind < 4:
            return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 12)))
        if kind < 6:
            a = rng.choice(alphabets)
            return "".join(rng.choice(a) + (" " if rng.random() < 0.15 else "") for _ in range(rng.randint(1, 30)))
        if kind == 6:
            return rng.choice(CODE)
        if kind == 7:
            return "".join(rng.choice(EMOJI) for _ in range(rng.randint(1, 4)))
        if kind == 8:
            return rng.choice(SPACES) * rng.choice([1, 2, 3, 4, 7, 8, 15, 16, 31, 33])
        if kind == 9:
            return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 8)))
        if kind == 10:
            return rng.choice(CONTRACTIONS)
        if kind == 11:
            return "".join(rng.choice("0123456789٣४５²½Ⅷ") if rng.random() < 0.1 else rng.choice("0123456789")
                           for _ in range(rng.randint(1, 15)))
        if kind == 12:
            return rng.choice(ODD) * rng.randint(1, 3)
        if kind == 13:
            return "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…。、„“”«»—") for _ in range(rng.randint(1, 8)))
        if kind == 14:
            return rng.choice(specials) if specials else "<|x|>"
        return rng.choice(["A", "z", "ABC", "camelCase", "HTTPServer", "snake_case", "x", "É", "ß", "ÀB", "aBcD"])

    documents = ["", " ", "  ", "\n", "a", " a", "\t", "\r\n", "\u3000", "0"]
    for space in SPACES[:5]:
        for n in (1, 2, 5, 30, 31, 32, 33, 40, 63, 64, 100, 1000, 3333):
            documents += [space * n, "a" + space * n + "b", space * n + "x", "x" + space * n]
    documents += ["a" * 5000, "9" * 3000, "é" * 2000, "漢" * 2000, "!" * 3000, "ab " * 2000, "🦔" * 500, "A" * 3000]
    for special in specials[:40]:
        for text in ("Hydra", " Hydra", "\tlantern", "", "\n", "\n\n\n", "\r\n\n", special):
            documents.append(special + text + special)
    for cp in [c for a in alphabets for c in a if len(a) < 1500]:
        if rng.random() < 0.35:
            documents.append("x" + cp + " " + cp + cp + "1" + cp)
    total = sum(map(len, documents))
    while total < n_chars:
        documents.append("".join(piece() + ("" if rng.random() < 0.4 else " ") for _ in range(rng.randint(1, 25))))
        total += len(documents[-1])
    return documents


# --- compare ----------------------------------------------------------------------------------------------------------

def smollm_tokenizer(fields):
    """The structure of SmolLM2's tokenizer.json around the tables of the GGUF file."""
    tokens = fields["tokens"]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                                     [tuple(m.split(" ", 1)) for m in fields["merges"]]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True)
                                  for t, kind in zip(tokens, fields["token_type"]) if kind == 3])
    return tokenizer


def hf_tokenizer(path):
    from gguf import GGUFReader
    reader = GGUFReader(path)
    prefix = "tokenizer.ggml."
    fields = {k[len(prefix):]: f.contents() for k, f in reader.fields.items() if k.startswith(prefix)}
    specials = [t for t, kind in zip(fields["tokens"], fields["token_type"]) if kind in (3, 4) and t.strip()]
    if fields["model"] == "gpt2" and fields.get("pre") == "smollm":
        return smollm_tokenizer(fields), specials
    from transformers import AutoTokenizer
    path = pathlib.Path(path)
    return AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).backend_tokenizer, specials


def compare(args):
    tokenizer, specials = hf_tokenizer(args.model)
    documents = corpus(args.seed, args.chars, specials)
    encoded = [d.encode() for d in documents]
    run = subprocess.run([args.tool, args.model], check=True, stdout=subprocess.PIPE,
                         input=b"".join(b"%d\n%b" % (len(e), e) for e in encoded))
    lines = run.stdout.decode().splitlines()
    assert len(lines) == len(documents), (len(lines), len(documents))
    n_ids = n_differ = n_round = 0
    for document, line in zip(documents, lines):
        ids, _, trip = line.partition("\t")
        ours = [int(i) for i in ids.split()]
        theirs = tokenizer.encode(document, add_special_tokens=False).ids
        n_ids += len(ours)
        n_round += trip != "same"
        if ours != theirs:
            n_differ += 1
            if n_differ <= args.show:
                at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
                show = lambda ids: [tokenizer.id_to_token(i) for i in ids[max(0, at - 2):at + 6]]
                print(f"differs at id {at}: {document[:80]!r}\n  ours   {show(ours)}\n  theirs {show(theirs)}")
    print(f"{args.model}: {len(documents)} documents, {sum(map(len, encoded))} bytes, {n_ids} ids: "
          f"{n_differ} documents differ, {n_round} do not round-trip")
    return 1 if n_differ else 0


# --- golden -----------------------------------------------------------------------------------------------------------

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LEAD = r"[^\r\n\p{L}\p{N}]?"


def cased(minus="", after="", digits=r"\p{N}{1,3}", slash="/"):
    return (f"{LEAD}[{UPPER}{minus}]*[{LOWER}{minus}]+{after}|{LEAD}[{UPPER}{minus}]+[{LOWER}{minus}]*{after}|"
            f"{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n{slash}]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


O200K = cased(after=CONTRACT + "?")
DS3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
       r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "\\x{4E00}-\\x{9FA5}"
JAIS = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
RULES = {  # one pre-tokenizer name per rule set -> patterns in Oniguruma's syntax, applied one after the other
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "llama-bpe": [rf"{CONTRACT}|{WORD}|\p{{N}}{{1,3}}|{TAIL}"],
    "minicpm5": [r"\p{N}{1,3}", rf"{CONTRACT}|{WORD}|\p{{N}}+|{TAIL}"],
    "jais-2": [rf"{CONTRACT}|{WORD}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|{JAIS}|\s{{1,2}}(?!\S)|\s{{1}}"],
    "qwen2": [rf"{CONTRACT}|{WORD}|\p{{N}}|{TAIL}"],
    "qwen35": [rf"{CONTRACT}|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}|" + TAIL.replace(r"\p{L}", r"\p{L}\p{M}")],
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+", r"\s+$",
                     rf"[{CJK}\x{{800}}-\x{{4E00}}\x{{AC00}}-\x{{D7FF}}]+", r"\p{N}+"],
    "youtu": [rf"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[{CJK}\x{{3040}}-\x{{309F}}\x{{30A0}}-\x{{30FF}}]+",
              cased(after=CONTRACT + "?", digits=r"\p{N}")],
    "ufakzeka": [rf"{WORD}|\p{{N}}|{TAIL}"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", rf"[{CJK}\x{{800}}-\x{{4E00}}\x{{AC00}}-\x{{D7FF}}]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", rf"[{CJK}\x{{3040}}-\x{{309F}}\x{{30A0}}-\x{{30FF}}]+", DS3],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}"
              r"\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}"
              r"\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+", DS3],
    "kimi-k2": [r"[\p{Han}]+|" + cased(minus=r"&&[^\p{Han}]", after=CONTRACT + "?", slash="")],
    "bloom": [" ?[^(\\s|.,!?…。，、।۔،)]+"],
    "viking": [" ?[^(\\s|.,!?…。，、।۔،)]+", r"\p{N}"],
    "tekken": [cased(digits=r"\p{N}")],
    "gpt-4o": [O200K],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [rf"{CONTRACT}|{WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "exaone-moe": [rf"{CONTRACT}|{LEAD}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "laguna": [r"[^\n]+|[\n]+", rf"{CONTRACT}|{WORD}|\p{{N}}|{TAIL}"],
    "sarvam-moe": [r"[^\n]+|[\n]+"],
}
NFC = {"qwen2", "qwen35"}
IGNORE_MERGES = {"llama-bpe", "tekken"}
SPECIALS = ["<|begin|>", "<|end_header_id|>", "<|eot_id|>"]  # control
USER_DEFINED = ["<tool>", "\t\t"]
TINY = ["", " ", "a", "Hydra", " Hydra", "hello world", "Hello, World! It's the 1234567 th of MAY 2024.",
        "I'm you're he's WE'LL They'D can't I'VE o'clock 'tis it''s don’t d'ſ", "    four   spaces\tand\t\ttabs \t mix  ",
        "line\nline\n\nline\r\n\r\nend\n\n\n\n", "\r\r\n x\n \n  \n\n\n y", "12 123 1234 12345 123456 1234567a 9_9 1,234.5",
        "x=1;y=[a,b];f(x)->{z!=0}//c++ #!/bin/sh\n\treturn *p++;\n", "snake_case camelCase HTTPServer XMLHttp ABCdef aBCD ÀÉÎ Ça",
        "naïve façade über straße İstanbul e\u0301a\u0308\u0323 \u0301x Å\u212b", "Привет, мир! Съешь ещё этих", "ΑΘΗΝΑ Ελλάδα",
        "你好，世界。今天天气很好 2024年12月", "  漢字 かなカナ  ー々〇 한국어 테스트", "مرحبا بالعالم، ٣٤٥ שלום", "नमस्ते दुनिया। हिन्दी १२३४",
        "ภาษาไทย ລາວ ខ្មែរ မြန်မာ", "🦔 👩‍🚀🏳️‍🌈🇩🇪 ❤️1️⃣", "½ ²³ Ⅷ ①② 1½2 12½345 ٣٤٥٦", "a\u00a0b\u3000c\u2028d\u200be\u180ef\u0085g\x0bh\x0ci",
        "\x00\x01\x1f\x7f\ufeff\ufffd\U0010ffff\U00050000", "…—“q”‘s’«g» (a) [b] {c} |d| ~e `f` $g ^h <i> @j #k", "!!!???...,,,\n\n;;/// /\n",
        " \n", "\n ", "\t\n\t", "a  b   c    d     e      f       g        h", " " * 40 + "x", "x" + "\n" * 37, "\t" * 9 + "y",
        " " * 700 + "z", "<sentinel:12> IMGIMGABCZ IMGIMGZ", "ㄅㄆㄇ ㄱㄴㄷ ︰﹏ ！…", "ab cd ef gh. The thing the their", "Ġ Ċ ▁ ▁▁ ĠĠ"]
HEADERS = [pre + "<|end_header_id|>" + "\n" * n + post for pre in ("", "\r") for n in (1, 2, 3, 4, 7) for post in ("", "x", " ")]
LEGACY = [m + t for m in ("<s>", "<|end_of_turn|>") for t in ("Hydra", " Hydra", "\tlantern", "")] + ["<pad>lantern<eos>"]


def letters():
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(256, 512))
    return [chr(b) if b in own else chr(next(rest)) for b in range(256)]


def isolated(patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]


def train_merges():
    """Merges learned without any pre-tokenizer: many cross word boundaries, so ids depend on how text is cut."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    rng = random.Random(7)
    text = [" ".join(rng.choice(WORDS + ["1234", "2024", "it's", "\n\n", "\n", "    ", "),", "();"]) for _ in range(12)) + rng.choice("\n. ")
            for _ in range(300)] + ["\n" * n for n in (2, 3, 4, 4, 8)] * 20 + TINY
    trainer = trainers.BpeTrainer(vocab_size=256 + 420, initial_alphabet=letters(), show_progress=False)
    tokenizer.train_from_iterator(text, trainer)
    return [m if isinstance(m, str) else " ".join(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]


def byte_level(pre, merges):
    texts = list(dict.fromkeys(letters() + [m.replace(" ", "") for m in merges]))
    vocab = {t: i for i, t in enumerate(texts)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges], ignore_merges=pre in IGNORE_MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        isolated(RULES[pre]) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if pre in NFC:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIALS])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in USER_DEFINED])
    return tokenizer


def ids_of(tokenizer, documents):
    return [tokenizer.encode(d, add_special_tokens=False).ids for d in documents]


def spm_tables():
    """A SentencePiece-like vocabulary: characters and trained pieces, score = - position of the piece."""
    mark = "\u2581"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator([(mark + d.replace(" ", mark)) for d in [" ".join(WORDS)] * 3 + TINY[:24] + ["Hydra lantern"] * 9],
                                  trainers.BpeTrainer(vocab_size=560, show_progress=False, limit_alphabet=150))
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    tables = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<pad>", 3), ("<eos>", 3), ("<|end_of_turn|>", 3), ("<tool>", 4),
              ("\t\t", 4), ("\n\n", 4)] + [(" " * n, 4) for n in range(2, 8)] + [(f"<0x{b:02X}>", 6) for b in range(256)]
    pieces = [p for p in pieces if (p.strip(mark) or p == mark) and (p, 4) not in tables]
    n = len(tables)
    return {"tokens": [t for t, _ in tables] + pieces, "types": [k for _, k in tables] + [1] * len(pieces),
            "scores": [0.0] * n + [-float(i) for i in range(len(pieces))]}


def spm_tokenizer(tables, prefix):
    mark = "\u2581"
    tokens = [t.replace(" ", mark) if k == 4 and not t.strip(" ") else t for t, k in zip(tables["tokens"], tables["types"])]
    rank = [(-1e6 + len(t)) if k == 4 else -s for t, k, s in zip(tokens, tables["types"], tables["scores"])]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [(rank[i], vocab[t[:k]], vocab[t[k:]], t[:k], t[k:]) for t, i in vocab.items() if tables["types"][i] in (1, 4)
              for k in range(1, len(t)) if t[:k] in vocab and t[k:] in vocab]
    tokenizer = Tokenizer(models.BPE(vocab, [(l, r) for *_, l, r in sorted(merges)], byte_fallback=True, fuse_unk=True,
                                     unk_token="<unk>"))
    steps = [normalizers.Prepend(mark)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", mark)])
    for text, kind in zip(tokens, tables["types"]):
        if kind in (2, 3):
            tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True)])
        elif kind == 4 and text.strip(mark):
            tokenizer.add_tokens([AddedToken(text, normalized=False)])
    return tokenizer


def make_golden(retrain):
    # Training breaks ties by hash order, so the trained tables are kept; everything else is made anew.
    kept = json.loads(GOLDEN.read_text()) if GOLDEN.exists() and not retrain else {}
    merges = kept.get("merges") or train_merges()
    tables = kept.get("spm") or spm_tables()
    documents = TINY + HEADERS + ["<|begin|>Hydra<tool> x<|eot_id|>\t\t\t<|eot_id"]
    spm_documents = TINY + LEGACY + ["<s>a<tool>b\n\n\n<|end_of_turn|>  c\t\t"]
    golden = {"documents": documents, "spm_documents": spm_documents, "merges": merges, "control": SPECIALS,
              "user_defined": USER_DEFINED, "splits": {}, "bpe": {}, "spm": tables}
    for pre, patterns in RULES.items():
        cutter = pre_tokenizers.Sequence(isolated(patterns))
        golden["splits"][pre] = [" ".join(str(len(piece.encode())) for piece, _ in cutter.pre_tokenize_str(d)) for d in TINY]
        if pre != "sarvam-moe":
            golden["bpe"][pre] = [" ".join(map(str, ids)) for ids in ids_of(byte_level(pre, merges), documents)]
    for name, prefix in (("spm_prefix", True), ("spm_plain", False)):
        golden[name] = [" ".join(map(str, ids)) for ids in ids_of(spm_tokenizer(golden["spm"], prefix), spm_documents)]
    lines = [json.dumps(k) + ": " + json.dumps(v) for k, v in golden.items() if k not in ("splits", "bpe")]
    for k in ("splits", "bpe"):
        lines.append(json.dumps(k) + ": {\n" + ",\n".join(json.dumps(n) + ": " + json.dumps(v) for n, v in golden[k].items()) + "}")
    return "{" + ",\n".join(lines) + "}\n"


def golden(args):
    text = make_golden(args.retrain)
    if args.check:
        same = GOLDEN.exists() and GOLDEN.read_text() == text
        print(f"{GOLDEN.relative_to(ROOT)}: " + ("up to date" if same else "DIFFERS from what this script makes"))
        return 0 if same else 1
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(text)
    print(f"{GOLDEN.relative_to(ROOT)}: {len(text)} bytes")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("compare")
    command.add_argument("model")
    command.add_argument("--tool", required=True, help="the built tests/tokenizer/tokenize_tool")
    command.add_argument("--chars", type=int, default=1_000_000)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--show", type=int, default=10, help="differences to print")
    command = commands.add_parser("golden")
    command.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    command.add_argument("--retrain", action="store_true", help="train new vocabularies")
    args = parser.parse_args()
    return compare(args) if args.command == "compare" else golden(args)


if __name__ == "__main__":
    sys.exit(main())
