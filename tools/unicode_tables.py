#!/usr/bin/env python3
"""Write src/text/generated/unicode_tables.c: the character classes that Hugging Face's tokenizers library uses.

Its parts follow different Unicode versions (its normalizer is old, its character classes are new), so the classes are
asked from the library itself, one code point at a time, and not taken from one version of the Unicode data.

  unicode_tables.py [OUTPUT]        needs the PyPI package tokenizers
"""
import os
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def splits(pre_tokenizer):
    """Code points at which the pre-tokenizer cuts a word."""
    return {c for c in POINTS if [p for p, _ in pre_tokenizer.pre_tokenize_str("a%sa" % chr(c))] != ["a%sa" % chr(c)]}


def reordered():
    """Code points with a combining class other than 0: NFD moves them over a mark of class 1, or a mark of class 230 over them."""
    nfd = normalizers.NFD()
    found = set()
    for c in POINTS:
        low, high = chr(c) + "\u0334", "\u0301" + chr(c)
        if len(nfd.normalize_str(chr(c))) == 1 and (nfd.normalize_str(low) != low or nfd.normalize_str(high) != high):
            found.add(c)
    return found | {0x0301}


def joined():
    """Code points of combining class 0 that compose with the one before."""
    nfc = normalizers.NFC()
    found = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for c in POINTS:
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and not unicodedata.combining(chr(int(parts[1], 16))):
            if nfc.normalize_str(chr(int(parts[0], 16)) + chr(int(parts[1], 16))) == chr(c):
                found.add(int(parts[1], 16))
    return found


def with_expansions(points):
    """Those, and the code points whose decomposition begins with one of them."""
    nfkd, firsts = normalizers.NFKD(), set(map(chr, points))
    return points | {c for c in POINTS if nfkd.normalize_str(chr(c))[0] in firsts}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, points):
    rows = ranges(points)
    cells = ["{0x%x, 0x%x}" % (a, b) for a, b in rows]
    lines = ["    " + ", ".join(cells[i:i + 6]) + "," for i in range(0, len(cells), 6)]
    return "const struct unicode_range %s[] = {\n%s\n};\nconst size_t %s_count = %d;\n" % (name, "\n".join(lines), name, len(rows))


def lowercase():
    """Pairs that lower case of one code point maps to one other, as ranges with one distance and a step of 1 or 2."""
    lower = normalizers.Lowercase()
    pairs = []
    for c in POINTS:
        text = lower.normalize_str(chr(c))
        if len(text) == 1 and ord(text) != c:
            pairs.append((c, ord(text) - c))
    rows = []
    for c, distance in pairs:
        last = rows[-1] if rows else None
        if last and last[2] == distance and (last[3] in (0, c - last[1])) and c - last[1] in (1, 2):
            last[3], last[1] = c - last[1], c
        else:
            rows.append([c, c, distance, 0])
    cells = ["{0x%x, 0x%x, %d, %d}" % (a, b, d, max(s, 1)) for a, b, d, s in rows]
    lines = ["    " + ", ".join(cells[i:i + 5]) + "," for i in range(0, len(cells), 5)]
    return ("const struct unicode_case_range unicode_table_lowercase[] = {\n%s\n};\nconst size_t unicode_table_lowercase_count = %d;\n"
            % ("\n".join(lines), len(rows)))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../src/text/generated/unicode_tables.c")
    strip, nfkd = normalizers.StripAccents(), normalizers.NFKD()
    combining = reordered()
    parts = [
        table("unicode_table_numeric", splits(pre_tokenizers.Digits())),
        table("unicode_table_punctuation", splits(pre_tokenizers.Punctuation())),
        table("unicode_table_word", set(POINTS) - splits(pre_tokenizers.Whitespace())),
        table("unicode_table_mark", {c for c in POINTS if strip.normalize_str(chr(c)) == ""}),
        table("unicode_table_joins", with_expansions(combining | joined())),
        table("unicode_table_decomposes", {c for c in POINTS if nfkd.normalize_str(chr(c)) != chr(c)}),
        lowercase(),
    ]
    with open(path, "w") as f:
        f.write("/* Made by tools/unicode_tables.py from tokenizers %s; do not edit. */\n" % tokenizers.__version__)
        f.write('#include "text/unicode_tables.h"\n\n' + "\n".join(parts))


main()
