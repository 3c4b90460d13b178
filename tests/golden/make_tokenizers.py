"""Writes tests/golden/transformer/: 12,000 strings that are hard to tokenize, and their tokens by other tokenizers.

  pip install tiktoken==0.14.0 tokenizers==0.23.3 regex safetensors numpy unicodedata2==16.0.0
  python tests/golden/make_tokenizers.py DATA BENCH_TOKENIZER

DATA holds gpt2/encoder.json, gpt2/vocab.bpe and tinyshakespeare/input.txt. BENCH_TOKENIZER is the built program, which
trains the two small vocabularies (small_gpt2.json, small_cl100k.json). The trainer of `tokenizers` must give the same merges.

tokenizers.safetensors holds the concatenated strings (`text`, `ends`), and for each string a 32-bit FNV-1a hash of
  pieces_*       the lengths in bytes of the pieces that `regex` finds with the pattern
  gpt2           ids of GPT-2's vocabulary by tiktoken, special tokens encoded as text; `tokenizers` must agree
  gpt2_special   ids of GPT-2's vocabulary by tiktoken, special tokens allowed
  cl100k         ids with GPT-2's ranks and the pattern of cl100k, by tiktoken; `tokenizers` must agree
  small_*        ids of the small vocabularies by `tokenizers`, special tokens allowed
  small_llama3   ids of small_llama3.json by `tokenizers`, with a template; the file has all features of Llama 3's file
  small_around   ids of the same vocabulary with a template that also appends tokens to the text
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import regex
import tiktoken
import unicodedata2 as unicodedata
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).parent / "transformer"
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029" \
         "\u202f\u205f\u3000"
LOOK_LIKE_SPACES = "\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u200d\u2060\ufeff"
WORDS = ["the", " the", "Hello", " world", "don't", "I'LL", "we'Ve", "'S", "'s", "'ſ", "'", "''", "'re", "'r", "'l", "'ll",
         "'D", "O'Brien", "1", "12", "123", "1234567", "3.14", "²³", "Ⅻ", "½", "٣٤", "naïve", "Ünïcödé", "straße", "ИВАН",
         " привет", "你好", "世界", "日本語テキスト", "한국어", "ภาษาไทย", "हिन्दी", "שלום", "مرحبا", "e\u0301", "a\u0308\u0323",
         "😀", "👩‍👩‍👧‍👦", "🇩🇪", "✈️", "…", "—", "«»", "$100", "100%", "a_b", "x=y;", "//", "/* */", "{}", "->", "::",
         "http://a.b/c?d=e&f", "user@host", "<|endoftext|>", "<|endoftext", "|>", "\x00", "\x01", "\x7f", "\u0130", "K",
         "\n", "\n\n", "\r\n", "\r", "\t", "  ", "   ", " \n ", "\n \n", "\u3000", "\u2028", "\ufffd", "\U0010ffff"]


def usable_characters():
    """Characters by class, without surrogates and without those whose class differs in `regex`, which has a later Unicode."""
    tests = {"L": regex.compile(r"\p{L}"), "N": regex.compile(r"\p{N}")}
    out = {"L": [], "N": [], "": []}
    for code in range(0x80, 0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        c = chr(code)
        own = unicodedata.category(c)[0]
        own = own if own in "LN" else ""
        now = next((k for k, test in tests.items() if test.match(c)), "")
        if own == now:
            out[own].append(c)
    return out


def make_strings():
    rng = random.Random(20)
    characters = usable_characters()
    printable = [chr(c) for c in range(32, 127)]

    def any_character():
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(characters["L"])
        if kind < 0.5:
            return rng.choice(characters["N"])
        if kind < 0.65:
            return rng.choice(characters[""])
        if kind < 0.75:
            return rng.choice(SPACES)
        return rng.choice(printable)

    def join(source, most):
        return "".join(source() for _ in range(rng.randint(1, most)))

    strings = ["", *SPACES, *LOOK_LIKE_SPACES, *WORDS, *map(chr, range(128))]
    strings += ["".join(p) for p in ((a, b, c) for a in (" ", "\t", "\n", "\xa0", "") for b in (" ", "\n", "\r", "\u3000", "")
                                     for c in ("a", "1", "!", "\n", "é", "'s", ""))]
    while len(strings) < 5500:
        strings.append(join(lambda: rng.choice(WORDS), 8))
    while len(strings) < 8000:
        strings.append(join(any_character, 10))
    while len(strings) < 9500:
        strings.append(join(lambda: rng.choice(rng.choice([SPACES, LOOK_LIKE_SPACES, "  \n\r", "a1!.'", "s"])), 14))
    while len(strings) < 11600:
        strings.append(join(lambda: rng.choice(rng.choice([printable, "'sStTrReEvVmMlLdD ", "0123456789 "])), 20))
    while len(strings) < 12000:
        strings.append(rng.choice("a e0 \n.!é你😀=") * rng.randint(20, 150) + rng.choice(["", "b", " ", "\n", "1"]))
    return strings


def fnv(numbers):
    h = 2166136261
    for n in numbers:
        for byte in int(n).to_bytes(4, "little"):
            h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def hashes(lists):
    return np.array([fnv(x) for x in lists], "<u4").view("<i4")


def pre_tokenizer(name):
    if name == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def ids_by(tokenizer, strings, add_special_tokens=False):
    return [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=add_special_tokens)]


def gpt2_ranks(folder):
    """GPT-2's vocabulary as {bytes: rank}, the form of tiktoken. encoder.json spells each byte as a printable character."""
    printed = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    byte_of = {chr(b): b for b in printed}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printed)})
    vocabulary = json.loads((folder / "encoder.json").read_text())
    return {bytes(byte_of[c] for c in token): n for token, n in vocabulary.items() if token != "<|endoftext|>"}


def train(name, bench, text_path, size, special):
    """Trains a small vocabulary with the library. The trainer of `tokenizers` must learn the same merges."""
    path = FOLDER / f"small_{name}.json"
    subprocess.run([bench, text_path, "--vocabulary", str(size), "--pattern", name, "--special", special, "--min-count", "1",
                    "--seconds", "0", "--save", path], check=True)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizer(name)
    theirs.train_from_iterator([pathlib.Path(text_path).read_bytes().decode()], trainers.BpeTrainer(
        vocab_size=size - 1, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ours, theirs = json.loads(path.read_text())["model"], json.loads(theirs.to_str())["model"]
    assert [list(m) for m in ours["merges"]] == [list(m) for m in theirs["merges"]], "the trainers differ"
    assert {k: v for k, v in ours["vocab"].items() if k != special} == theirs["vocab"], "the vocabularies differ"
    return Tokenizer.from_file(str(path))


def llama3(text):
    """A tokenizer with the structure of Llama 3's, and a small vocabulary in which some tokens have no merge."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer("cl100k")
    trained.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for i, merge in enumerate(model["merges"]) if i % 7 != 6]
    tokenizer = Tokenizer(models.BPE(model["vocab"], merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer("cl100k")
    tokenizer.decoder = decoders.ByteLevel()
    # Special tokens that occur in the strings; one is a prefix of another.
    tokenizer.add_special_tokens([AddedToken(content, normalized=False, special=True) for content in
                                  ["<|begin_of_text|>", "<|endoftext|>", "<|end", "/* */"]])
    return tokenizer


def template(tokenizer, single):
    names = ["<|begin_of_text|>", "<|endoftext|>"]
    return processors.TemplateProcessing(single=single, pair=single + " $B:1",
                                         special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])


def main():
    data, bench = pathlib.Path(sys.argv[1]), sys.argv[2]
    FOLDER.mkdir(exist_ok=True)
    strings = make_strings()
    encoded = [s.encode() for s in strings]
    out = {"text": np.frombuffer(b"".join(encoded), "u1"), "ends": np.cumsum([len(e) for e in encoded]).astype("<i4")}
    for name, pattern in PATTERNS.items():
        compiled = regex.compile(pattern)
        out[f"pieces_{name}"] = hashes([len(p.encode()) for p in compiled.findall(s)] for s in strings)

    ranks = gpt2_ranks(data / "gpt2")
    special = {"<|endoftext|>": 50256}
    encodings = {name: tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
                 for name, pattern in PATTERNS.items()}
    ids = {name: [e.encode_ordinary(s) for s in strings] for name, e in encodings.items()}
    for name in PATTERNS:
        theirs = Tokenizer(models.BPE.from_file(str(data / "gpt2/encoder.json"), str(data / "gpt2/vocab.bpe")))
        theirs.pre_tokenizer = pre_tokenizer(name)
        differing = [s for s, a, b in zip(strings, ids[name], ids_by(theirs, strings)) if a != b]
        assert not differing, f"tiktoken and tokenizers differ on {len(differing)} strings, {differing[:3]}"
        out[name] = hashes(ids[name])
    out["gpt2_special"] = hashes(encodings["gpt2"].encode(s, allowed_special="all") for s in strings)

    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        play = (data / "tinyshakespeare/input.txt").read_text()[:300000]
        text.write_bytes((play + "".join(strings[:9500]).replace("<|endoftext|>", "")).encode())
        for name in PATTERNS:
            out[f"small_{name}"] = hashes(ids_by(train(name, bench, text, 1500, "<|endoftext|>"), strings))
        tokenizer = llama3(text.read_bytes().decode())
    around = template(tokenizer, "<|begin_of_text|> $A <|endoftext|> <|endoftext|>")
    tokenizer.post_processor = around
    out["small_around"] = hashes(ids_by(tokenizer, strings, True))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                    template(tokenizer, "<|begin_of_text|> $A")])
    (FOLDER / "small_llama3.json").write_text(tokenizer.to_str() + "\n")
    out["small_llama3"] = hashes(ids_by(tokenizer, strings, True))
    save_file(out, FOLDER / "tokenizers.safetensors")
    print(len(strings), "strings,", out["text"].size, "bytes,", sum(map(len, ids["gpt2"])), "tokens of GPT-2")


if __name__ == "__main__":
    main()
