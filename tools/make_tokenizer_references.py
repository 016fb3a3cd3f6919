#!/usr/bin/env python3
"""Makes a small tokenizer of each kind and the ids that Hugging Face's tokenizers (and SentencePiece) give with it.

    pip install -r tools/requirements-dev.txt
    python tools/make_tokenizer_references.py

Writes tests/goldens/tokenizers/<kind>/: tokenizer.json or tokenizer.model, and cases.json with texts, ids and what they
decode to. The tests need nothing but these.
"""

import base64
import io
import json
import random
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from check_tokenizers import SHARED, load
from tokenizer_texts import CODE, EMOJI, SPECIAL, sentence

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "tokenizers"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ADDED = [AddedToken("<tool>", special=False, normalized=False, lstrip=True, rstrip=True),
         AddedToken("word", special=False, normalized=False, single_word=True),
         AddedToken("Ằnder", special=False, normalized=True)]
SPECIALS = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False)]


def corpus():
    rng = random.Random(5)
    return [sentence(rng) for _ in range(600)]


def latin():
    """Few characters, so that a small vocabulary holds them, and unknown ones are left."""
    return [text for text in corpus() if "\0" not in text and max(text, default="a") < "\u1f00"]


def texts():
    rng = random.Random(6)
    result = ["", " ", "  ", "a", " a", "  a b", "Hello world", "\n", " \n x", "a<tool>b", "a <tool>  b", "word words word",
              "x word", "Ằnder under A\u0306\u0300nder", "<s>a</s> b", "a b<s> c", "<s> <s>", "tab\tand\u3000wide", "\u00a0\u200b", "e\u0301\u0323",
              "가각ᄀ\u1161\u11a8", "\r\n\r\n", "1234567 89", "I'm we'RE 'S", "\u0000\u0001\u001f", "中文abc中文", "\ufffd",
              "▁▁ ▁a", "ŀ Ġthe"] + CODE + EMOJI + SPECIAL
    result += [" ".join(sentence(rng) for _ in range(rng.randint(1, 2)))[:100] for _ in range(30)]
    return result


def byte_level(pre_tokenizer, normalizer=None, ignore_merges=False, vocabulary=340):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def characters(normalizer, pre_tokenizer, decoder, byte_fallback, vocabulary=420):
    """BPE over characters; the ids of <unk>, <s>, </s> and, where asked for, the bytes come first."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=byte_fallback, byte_fallback=byte_fallback))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    first = ["<unk>", "<s>", "</s>"] + (BYTES if byte_fallback else [])
    trainer = trainers.BpeTrainer(vocab_size=vocabulary + len(first), limit_alphabet=90, special_tokens=first,
                                  show_progress=False)
    words = [" " + word for text in corpus() for word in text.split(" ")]
    tokenizer.train_from_iterator(words, trainer)
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = [token for token in description["added_tokens"] if token["id"] < 3]
    return Tokenizer.from_str(json.dumps(description))


def sentencepiece_model(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(latin()), model_writer=model, vocab_size=500,
        character_coverage=0.98, minloglevel=2, hard_vocab_limit=False, num_threads=1, **options)
    return model.getvalue()


def small_charsmap(folder):
    """A table of a few rules: SentencePiece's own has 200 KB."""
    rules = folder / "rules.tsv"
    pairs = [("\u00a0", " "), ("\t", " "), ("\n", " "), ("\ufb01", "fi"), ("e\u0301", "é"), ("\u00bd", "1/2"), ("\u3000", " "),
             ("\u2160", "I"), ("\u200b", ""), ("\uff41", "a"), ("\r", " "), ("A\u0308", "Ä")]
    rules.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n"
                             for a, b in pairs))
    model = sentencepiece_model(normalization_rule_tsv=str(rules))
    rules.unlink()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    from sentencepiece import sentencepiece_model_pb2 as proto
    parsed = proto.ModelProto()
    parsed.ParseFromString(model)
    assert len(processor) > 0
    return base64.b64encode(parsed.normalizer_spec.precompiled_charsmap).decode()


def unigram(normalizer, pre_tokenizer, decoder, byte_fallback):
    trainer_model = Tokenizer(models.Unigram())
    trainer_model.normalizer = normalizer
    trainer_model.pre_tokenizer = pre_tokenizer
    first = ["<unk>", "<s>", "</s>"] + (BYTES if byte_fallback else [])
    trainer = trainers.UnigramTrainer(vocab_size=1000, special_tokens=first, unk_token="<unk>",
                                      show_progress=False)
    trainer_model.train_from_iterator(latin(), trainer)
    description = json.loads(trainer_model.to_str())
    # Rare characters go, so that there are unknown ones.
    description["model"]["vocab"] = description["model"]["vocab"][:len(first) + 330]
    description["model"]["byte_fallback"] = byte_fallback
    description["added_tokens"] = [token for token in description["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.decoder = decoder
    return tokenizer


def template(single):
    return lambda t: processors.TemplateProcessing(
        single=single, special_tokens=[(name, t.token_to_id(name)) for name in ("<s>", "</s>")])


def kinds(folder):
    digits = pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    llama_decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)), None
    yield "qwen2", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), plain]),
                              normalizers.NFC()), None
    yield "llama3", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), plain]),
                               ignore_merges=True), template("<s> $A")
    yield "deepseek", byte_level(pre_tokenizers.Sequence([
        digits, pre_tokenizers.Split(Regex("[一-龥\u3040-ゟ゠-ヿ]+"), "isolated"),
        pre_tokenizers.Split(Regex(DEEPSEEK), "isolated"), plain])), template("<s> $A")
    yield "digits", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                        pre_tokenizers.ByteLevel(add_prefix_space=True)])), None
    yield "llama2", characters(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                               llama_decoder, True), template("<s> $A")
    yield "mistral", characters(None, pre_tokenizers.Metaspace("▁", "first", False), llama_decoder, True), template("<s> $A")
    yield "metaspace_always", characters(None, pre_tokenizers.Metaspace("▁", "always", True),
                                         decoders.Metaspace("▁", "always", True), False), template("<s> $A </s>")
    yield "metaspace_never", characters(normalizers.Strip(), pre_tokenizers.Metaspace("▁", "never", True),
                                        decoders.Metaspace("▁", "never", True), False), None
    yield "behaviors", characters(
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"\s+"), "merged_with_next"), pre_tokenizers.Split("a", "merged_with_previous"),
            pre_tokenizers.Split(Regex("[eo]"), "contiguous"), pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(False), pre_tokenizers.Split(Regex(r"[^x]+"), "removed", invert=True)]),
        decoders.Fuse(), False), None
    yield "whitespace", characters(normalizers.Sequence([normalizers.NFKD(), normalizers.Nmt()]),
                                   pre_tokenizers.Whitespace(), decoders.Fuse(), False), None
    yield "unigram", unigram(
        normalizers.Precompiled(base64.b64decode(small_charsmap(folder))),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always", True)]),
        decoders.Metaspace("▁", "always", True), False), template("$A </s>")
    yield "unigram_bytes", unigram(
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Metaspace("▁", "first", True), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]),
        True), None


def write_cases(folder, cases):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, tokenizer, processor in kinds(TARGET):
        folder = TARGET / name
        folder.mkdir(exist_ok=True)
        tokenizer.add_special_tokens(SPECIALS)
        tokenizer.add_tokens(ADDED)
        if processor:
            tokenizer.post_processor = processor(tokenizer)
        if name == "llama2":  # the published file has its special tokens so
            description = json.loads(tokenizer.to_str())
            for token in description["added_tokens"][:3]:
                token["normalized"] = True
            # and its merges as pairs in one string
            description["model"]["merges"] = [" ".join(pair) for pair in description["model"]["merges"]]
            tokenizer = Tokenizer.from_str(json.dumps(description))
            text = json.dumps(description, ensure_ascii=False)
        else:
            text = tokenizer.to_str()
        (folder / "tokenizer.json").write_text(text + "\n")
        cases = []
        for text in texts():
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
            if len(cases) < 20:
                case["with_special"] = tokenizer.encode(text).ids
            if name != "llama2":  # there the library leaves special tokens in
                quiet = tokenizer.decode(ids, skip_special_tokens=True)
                case |= {"decoded_without_special": quiet} if quiet != case["decoded"] else {}
            cases.append(case)
        write_cases(folder, cases)
    for name, options in (("sentencepiece_bpe", {"model_type": "bpe", "byte_fallback": True,
                                                 "normalization_rule_name": "identity",
                                                 "remove_extra_whitespaces": False}),
                          ("sentencepiece_unigram", {"model_type": "unigram", "normalization_rule_name": "identity"})):
        folder = TARGET / name
        folder.mkdir(exist_ok=True)
        model = sentencepiece_model(**options)
        (folder / "tokenizer.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        cases = []
        for text in texts():
            if "<" in text or "▁" in text or "\0" in text:  # SentencePiece finds no special tokens in text
                continue
            ids = processor.encode(text)
            # SentencePiece writes unknown tokens in a way of its own.
            decoded = {} if processor.unk_id() in ids else {"decoded": processor.decode(ids)}
            cases.append({"text": text, "ids": ids} | decoded)
        write_cases(folder, cases)


def write_shared_cases():
    """What the published tokenizers of ../shared/data give, where they are."""
    if not SHARED.is_dir():
        return
    mistral, t5 = load(SHARED / "mistral-v0.3"), load(SHARED / "t5")
    cases = []
    for text in texts()[:60]:
        if "<" in text or "\0" in text or "▁" in text:
            continue
        case = {"text": text}
        for name, key, tokenizer in (("mistral-v0.3", "mistral_text", mistral), ("t5", "t5_text", t5)):
            case[name] = tokenizer.encode(text, add_special_tokens=False).ids
            case[key] = tokenizer.decode(case[name])
        cases.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (TARGET.parent / "references" / "shared_tokenizers.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
    write_shared_cases()
