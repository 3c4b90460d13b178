"""Writes tests/golden/transformer/families/: a small tokenizer.json of each kind that model families use, and the tokens by
`tokenizers` of 2,000 strings for each. The strings are those of make_tokenizers.py, every sixth, and for NFC 2,000 more.

  pip install tokenizers==0.23.3 safetensors numpy unicodedata2==16.0.0
  python tests/golden/make_family_tokenizers.py

families.safetensors holds the texts of NFC (`nfc_text`, `nfc_ends`), and for each string a 32-bit FNV-1a hash of
  nfc          the bytes of the normalized text, by `tokenizers`; unicodedata2 must agree
  NAME         ids by the tokenizer NAME.json, special tokens allowed, with the tokens of its template
  NAME_nfc     the same of the texts of NFC (qwen2 only)
"""

import json
import pathlib
import random

import numpy as np
import unicodedata2 as unicodedata
from safetensors.numpy import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).parent / "transformer"
WORDS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?" \
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = WORDS + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def strings():
    golden = load_file(FOLDER / "tokenizers.safetensors")
    text, out, at = golden["text"].tobytes(), [], 0
    for end in golden["ends"]:
        out.append(text[at:end].decode())
        at = end
    return out[::6]


def nfc_strings():
    """Marks, characters with decompositions and their parts, Hangul, and others, in random order. The newest characters are
    left out: `tokenizers` has the tables of an earlier Unicode."""
    rng = random.Random(7)
    theirs = normalizers.NFC().normalize_str

    def agrees(c):
        return all(theirs(text) == unicodedata.normalize("NFC", text) for text in (f"a{c}\u0301", f"a\u0345{c}\u0334", c))

    known = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and agrees(chr(c))]
    decomposed = [c for c in known if unicodedata.decomposition(c) and not unicodedata.decomposition(c).startswith("<")]
    marks = [c for c in known if unicodedata.combining(c)]
    parts = sorted({c for text in decomposed for c in unicodedata.normalize("NFD", text)})
    hangul = [chr(c) for c in [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3), 0xAC00, 0xAC01, 0xD7A3]]
    sources = [decomposed, marks, parts, hangul, list("aeiouAEIOU n"), list("\u0301\u0308\u0323\u0327\u0338")]
    return ["".join(rng.choice(rng.choice(sources)) for _ in range(rng.randint(1, 8))) for _ in range(2000)]


def fnv(numbers, width=4):
    h = 2166136261
    for n in numbers:
        for byte in int(n).to_bytes(width, "little"):
            h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def hashes(lists, width=4):
    return np.array([fnv(x, width) for x in lists], "<u4").view("<i4")


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def digits(individual):
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual), pre_tokenizers.ByteLevel(add_prefix_space=False)])


def byte_level(texts, pre_tokenizer, normalizer=None):
    out = Tokenizer(models.BPE())
    out.pre_tokenizer, out.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        out.normalizer = normalizer
    out.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=560, show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    out.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    out.enable_truncation(4000)  # a setting that readers pass over
    return out


def sentencepiece(texts, normalizer=None, pre_tokenizer=None):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, limit_alphabet=200, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *sorted(model["vocab"], key=model["vocab"].get)]
    merges = [tuple(m) for m in model["merges"]] + [("\u2581", "\u2581"), ("\u2581\u2581", "\u2581\u2581")]
    names += [n for n in ("\u2581\u2581", "\u2581\u2581\u2581\u2581") if n not in names]
    out = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, list(dict.fromkeys(merges)), unk_token="<unk>",
                               fuse_unk=True, byte_fallback=True))
    if normalizer:
        out.normalizer = normalizer
    if pre_tokenizer:
        out.pre_tokenizer = pre_tokenizer
    out.add_special_tokens([AddedToken(n, normalized=False, special=True) for n in ("<unk>", "<s>", "</s>")])
    out.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 1)])
    return out


def main():
    texts, nfc_texts = strings(), nfc_strings()
    mark = "\u2581"
    made = {
        "qwen2": byte_level(texts, split(QWEN2), normalizers.NFC()),
        "o200k": byte_level(texts, split(O200K)),
        "digits": byte_level(texts, digits(True)),
        "digit_runs": byte_level(texts, digits(False)),
        "llama2": sentencepiece(texts, normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])),
        "gemma": sentencepiece(texts, normalizers.Replace(" ", mark), pre_tokenizers.Split(" ", "merged_with_previous")),
        "mistral": sentencepiece(texts, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        "metaspace": sentencepiece(texts, None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)),
    }
    (FOLDER / "families").mkdir(exist_ok=True)
    encoded = [text.encode() for text in nfc_texts]
    nfc = normalizers.NFC()
    normal = [nfc.normalize_str(text) for text in nfc_texts]
    assert normal == [unicodedata.normalize("NFC", text) for text in nfc_texts], "tokenizers and unicodedata2 differ"
    out = {"nfc_text": np.frombuffer(b"".join(encoded), "u1"), "nfc_ends": np.cumsum([len(e) for e in encoded]).astype("<i4"),
           "nfc": hashes([text.encode() for text in normal], 1)}
    specials = [s + text for s, text in zip(["</s>", "a</s> ", "<|endoftext|>b", "  </s>  "] * 25, texts[1000:1100])]
    texts = texts[:1900] + specials
    text = [text.encode() for text in texts]
    out["text"] = np.frombuffer(b"".join(text), "u1")
    out["ends"] = np.cumsum([len(e) for e in text]).astype("<i4")
    for name, tokenizer in made.items():
        (FOLDER / "families" / f"{name}.json").write_text(tokenizer.to_str() + "\n")
        out[name] = hashes(e.ids for e in tokenizer.encode_batch(texts))
    out["qwen2_nfc"] = hashes(e.ids for e in made["qwen2"].encode_batch(nfc_texts))
    save_file(out, FOLDER / "families/families.safetensors")


if __name__ == "__main__":
    main()
