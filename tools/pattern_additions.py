#!/usr/bin/env python3
"""Write src/text/generated/pattern_additions.c: characters that a property of Oniguruma has and the same one of PCRE2 10.42 has not.

The tokenizers library carries an Oniguruma of Unicode 16; Debian 12 has a PCRE2 of Unicode 14. pattern_escape.c adds the difference
to each class. A newer PCRE2 has these characters itself; then they do no harm.

  pattern_additions.py [OUTPUT]     needs the PyPI package tokenizers and libpcre2-8 10.42
"""
import ctypes
import os
import sys

import tokenizers
from tokenizers import Regex, normalizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
BINARY = ["alphabetic", "uppercase", "lowercase", "emoji", "extended_pictographic", "ideographic"]
SCRIPTS = (
    "arabic armenian balinese bengali bopomofo canadian_aboriginal cherokee coptic cyrillic devanagari ethiopic georgian "
    "glagolitic gothic greek gujarati gurmukhi han hangul hebrew hiragana javanese kannada katakana khmer lao latin malayalam "
    "mongolian myanmar nko oriya runic sinhala syriac tamil telugu thaana thai tibetan tifinagh yi"
).split()
UTF, UCP, NO_CHECK = 0x80000, 0x20000, 0x40000000
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


class Pcre2:
    def __init__(self):
        self.lib = ctypes.CDLL("libpcre2-8.so.0")
        for name in ("pcre2_compile_8", "pcre2_match_data_create_8", "pcre2_get_ovector_pointer_8"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        version = ctypes.create_string_buffer(64)
        self.lib.pcre2_config_8(11, version)
        if not version.value.startswith(b"10.42"):
            sys.exit("libpcre2-8 is %s; the table is for 10.42" % version.value.decode())
        self.lib.pcre2_match_data_create_8.argtypes = [ctypes.c_uint32, ctypes.c_void_p]
        self.data = self.lib.pcre2_match_data_create_8(1, None)

    def members(self, expression):
        """Code points that the expression matches, by the runs of its matches in a text of all."""
        number, at = ctypes.c_int(), ctypes.c_size_t()
        source = ("(?:%s)+" % expression).encode()
        code = self.lib.pcre2_compile_8(source, ctypes.c_size_t(len(source)), UTF | UCP, ctypes.byref(number), ctypes.byref(at), None)
        if not code:
            sys.exit("PCRE2 refuses %s" % expression)
        found = set()
        for begin in range(0, len(POINTS), 4096):
            text = "".join(map(chr, POINTS[begin:begin + 4096]))
            subject, start = text.encode(), 0
            while self.lib.pcre2_match_8(ctypes.c_void_p(code), subject, ctypes.c_size_t(len(subject)), ctypes.c_size_t(start), NO_CHECK,
                                         ctypes.c_void_p(self.data), None) > 0:
                offsets = ctypes.cast(self.lib.pcre2_get_ovector_pointer_8(ctypes.c_void_p(self.data)), ctypes.POINTER(ctypes.c_size_t))
                found.update(map(ord, subject[offsets[0]:offsets[1]].decode()))
                start = offsets[1]
        return found


def oniguruma_members(expression):
    remove = normalizers.Replace(Regex(expression), "")
    found = set()
    for begin in range(0, len(POINTS), 4096):
        block = POINTS[begin:begin + 4096]
        found.update(set(block) - set(map(ord, remove.normalize_str("".join(map(chr, block))))))
    return found


def items(points):
    out, rows = "", []
    for c in sorted(points):
        if rows and rows[-1][1] == c - 1:
            rows[-1][1] = c
        else:
            rows.append([c, c])
    for first, last in rows:
        out += "\\\\x{%x}" % first + ("-\\\\x{%x}" % last if last > first else "")
    return out


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../src/text/generated/pattern_additions.c")
    pcre2 = Pcre2()
    rows = []
    for name, ours, theirs in ([(c, c, c) for c in CATEGORIES] + [(b.replace("_", ""), b.title(), b) for b in BINARY]
                               + [(s.replace("_", ""), s.title(), "sc:" + s) for s in SCRIPTS]):
        wanted, had = oniguruma_members("\\p{%s}" % ours), pcre2.members("\\p{%s}" % theirs)
        if had - wanted:
            print("%s: PCRE2 alone has %s" % (name, [hex(c) for c in sorted(had - wanted)][:20]))
        if wanted - had:
            rows.append('    {"%s",\n%s},\n' % (name, "\n".join('     "%s"' % text for text in chunks(items(wanted - had)))))
    with open(path, "w") as f:
        f.write("/* Made by tools/pattern_additions.py from tokenizers %s and PCRE2 10.42; do not edit. */\n" % tokenizers.__version__)
        f.write('#include "text/pattern_escape.h"\n\nconst struct pattern_addition pattern_additions[] = {\n%s};\n' % "".join(rows))
        f.write("const size_t pattern_additions_count = %d;\n" % len(rows))


def chunks(text):
    """Cuts at backslashes, so that no escape is torn."""
    parts, line = text.split("\\\\"), ""
    for part in parts[1:]:
        if len(line) > 100:
            yield line
            line = ""
        line += "\\\\" + part
    yield line


main()
