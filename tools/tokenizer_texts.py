"""Mixed text for checking and timing tokenizers: many languages, code, emoji, control characters, bytes that are not
UTF-8, very long words. The same for the same seed."""

import gzip
import json
import random
import struct
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared" / "data" / "text"

ENGLISH = ("the of and to in is was that it's we're they'll I'd river lantern fox said under morning light stone Water "
           "house little before between NASA re-entry don't can't o'clock e-mail 1234 3.14 50% $20 (see below)").split()
VIETNAMESE = ("Việt Nam là một quốc gia nằm ở phía đông bán đảo Đông Dương thuộc khu vực Đông Nam Á giáp với Lào "
              "Campuchia Trung Quốc biển và vịnh Thái Lan người ta thường nói rằng học ăn gói mở những được không").split()
CHINESE = "我想在苹果公司工作天气很好今天我们去公园散步吃饭喝茶读书写字电脑人工智能模型训练数据内存显卡，。！？：；「」（）"
JAPANESE = "これはペンです。東京タワーへ行きましたカタカナひらがな漢字ー々〆"
KOREAN = "안녕하세요 저는 모델을 훈련합니다 한국어 테스트 문장입니다"
ARABIC = "مرحبا بالعالم هذا نص عربي للاختبار مع تشكيلٌ وأرقام ١٢٣٤ والسلام عليكم ورحمة الله".split()
OTHER = ("Привет мир это тест Ελληνικά κείμενο עברית שלום नमस्ते दुनिया কেমন আছেন ไทยภาษา កាន់តែពិសេស ქართული Հայերեն "
         "አማርኛ தமிழ் తెలుగు ಕನ್ನಡ Ünïcödé Straße İstanbul ﬁne ﬂow Ⅷ ½ ² ™ ㎏ ｆｕｌｌ ﷺ").split()
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇻🇳", "🇺🇸🇻🇳", "❤️", "😶‍🌫️", "1️⃣", "🦙", "🚀", "✅", "👩🏿‍🚀", "☺", "\u200d", "\ufe0f"]
CODE = ["def f(x):\n    return x+1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "    \t  if x == 'y':\n",
        "SELECT * FROM t WHERE id=42;\r\n", "https://example.org/a_b?c=d&e=f#g", "{\"key\": [1, 2.5e-3, null]}",
        "<div class=\"x\">&nbsp;</div>", "#!/bin/bash\nset -euo pipefail\n", "x = y<<2 | z>>>3 ^ 0xDEADBEEF",
        "\n\n\n\n", "        ", "\t\t", "'''", "I'M 'S 'Ll WE'RE 'ſ 'x", "//----------//", "=====", "\\n\\t\\u0041"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "[INST]", "[/INST]", "<extra_id_0>",
           "<pad>", "<0x0A>", "▁", "▁▁", "Ġ", "<s", "s>", "[TOOL_CALLS]"]
BROKEN = [b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80\x80", b"\xc0\xaf",
          b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80"]


def random_character(rng):
    plane = rng.random()
    high = 0x300 if plane < 0.3 else 0x3000 if plane < 0.7 else 0x10000 if plane < 0.9 else 0x20000
    return chr(rng.choice([c for c in (rng.randrange(high) for _ in range(8)) if not 0xD800 <= c <= 0xDFFF] or [65]))


def combining(rng):
    base = rng.choice("aeiouAEIOUyndcsoơưâêôăđ가각一")
    return base + "".join(rng.choice("\u0300\u0301\u0302\u0303\u0306\u0309\u031b\u0323\u0308\u0345\u1161\u11a8\u3099")
                          for _ in range(rng.randint(1, 3)))


def sentence(rng):
    kind = rng.randrange(14)
    if kind < 3:
        return " ".join(rng.choice(ENGLISH) for _ in range(rng.randint(3, 20))) + rng.choice([".", "!", "?", "...", ""])
    if kind < 5:
        return " ".join(rng.choice(VIETNAMESE) for _ in range(rng.randint(3, 20))) + "."
    if kind == 5:
        return "".join(rng.choice(rng.choice([CHINESE, CHINESE, JAPANESE, KOREAN])) for _ in range(rng.randint(2, 60)))
    if kind == 6:
        return " ".join(rng.choice(ARABIC) for _ in range(rng.randint(2, 15)))
    if kind == 7:
        return "".join(rng.choice(CODE) for _ in range(rng.randint(1, 5)))
    if kind == 8:
        return "".join(rng.choice(EMOJI) + rng.choice(["", "", " ", "a"]) for _ in range(rng.randint(1, 8)))
    if kind == 9:
        return "".join(combining(rng) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 20)))
    if kind == 10:
        return "".join(chr(rng.choice([*range(32), 127, 0x85, 0xA0, 0xAD, 0x200B, 0x200E, 0x2028, 0x3000, 0xFEFF, 0x180E]))
                       + rng.choice(["", "a", " "]) for _ in range(rng.randint(1, 12)))
    if kind == 11:
        return "".join(random_character(rng) for _ in range(rng.randint(1, 30)))
    if kind == 12:
        return rng.choice(["", " ", "a", "\n"]).join(rng.choice(SPECIAL + OTHER) for _ in range(rng.randint(1, 12)))
    return " ".join(rng.choice(OTHER) for _ in range(rng.randint(2, 12)))


def long_words(rng):
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    yield "".join(rng.choice(alphabet) for _ in range(1_000_000))
    yield "a" * 100_000
    yield "".join(rng.choice(CHINESE) for _ in range(100_000))
    yield " " * 50_000 + "x" + "\n" * 50_000 + "\t" * 1000
    yield "0123456789" * 10_000
    yield "=-" * 50_000
    yield "▁" * 20_000
    yield "e\u0301" * 20_000
    yield "".join(rng.choice(EMOJI[:13]) for _ in range(20_000))


def shared_texts():
    """Real texts, where they are."""
    if not SHARED.is_dir():
        return
    for path in sorted(SHARED.iterdir()):
        raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        if ".jsonl" in path.name:
            for line in raw.decode().splitlines():
                yield from (str(value) for value in json.loads(line).values())
        elif ".json" in path.name:
            for row in json.loads(raw):
                yield from (str(value) for value in row.values())
        else:
            yield from raw.decode().split("\n\n")


def mixed_texts(megabytes, seed=1):
    """Texts as bytes, at least so many megabytes of them: real ones up to half, then made ones."""
    rng = random.Random(seed)
    texts = [text.encode() for text in long_words(rng)]
    size = sum(map(len, texts))
    real = list(shared_texts())
    rng.shuffle(real)
    for text in real:
        if size > megabytes * 5e5:
            break
        texts.append(text.encode())
        size += len(texts[-1])
    while size < megabytes * 1e6:
        parts = [sentence(rng).encode() for _ in range(rng.randint(1, 30))]
        if rng.random() < 0.1:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(BROKEN))
        texts.append(rng.choice([b" ", b"\n", b"", b"  ", b"\r\n"]).join(parts))
        size += len(texts[-1])
    return texts


def natural_texts(megabytes, seed=1):
    """What people train on: prose in three languages and code, in texts of one to a few thousand bytes."""
    rng = random.Random(seed)
    real = list(shared_texts()) or [sentence(random.Random(i)) for i in range(5000)]
    texts, size = [], 0
    while size < megabytes * 1e6:
        text = "\n".join(rng.choice(real) for _ in range(rng.randint(1, 6))).encode()
        texts.append(text)
        size += len(text)
    return texts


def write_texts(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            file.write(struct.pack("<I", len(text)) + text)


def read_texts(path):
    data = Path(path).read_bytes()
    texts, position = [], 0
    while position < len(data):
        length, = struct.unpack_from("<I", data, position)
        texts.append(data[position + 4:position + 4 + length])
        position += 4 + length
    return texts
