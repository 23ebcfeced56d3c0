/* gguf_pretokenizers: one row per pre-tokenizer. Expressions are those of the models' own tokenizer.json files. */
#include "text/gguf_pretokenizers.h"

#include "base/check.h"
#include "text/pretokenize.h"

#define SPACE_MARK "\xE2\x96\x81"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits) CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending
#define CASED_TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4O CASED(CONTRACTION "?") "|\\p{N}{1,3}|" CASED_TAIL
#define HAN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define HAN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define CJK "[一-龥぀-ゟ゠-ヿ]+"
#define DEEPSEEK(tail) \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" tail
#define BLOOM " ?[^(\\s|[.,!?…。，、।۔،])]+"
#define SPACES(n) "\\s{" n "}(?!\\S)|"

static const struct gguf_pretokenizer rows[] = {
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", NULL, {WORDS("\\p{N}{1,3}")}, true, true, false},
    {"dbrx smaug-bpe glm4 chatglm-bpe", NULL, {WORDS("\\p{N}{1,3}")}, false, false, false},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", "NFC", {WORDS("\\p{N}")}, false, false, false},
    {"stablelm2 hunyuan solar-open grok-2", NULL, {WORDS("\\p{N}")}, false, false, false},
    {"qwen35",
     "NFC",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false,
     false},
    {"minicpm5", NULL, {"\\p{N}{1,3}", WORDS("\\p{N}+")}, true, false, false},
    {"laguna", NULL, {"[^\\n]+|[\\n]+", WORDS("\\p{N}")}, false, false, false},
    {"ufakzeka", NULL, {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" TAIL}, false, false, false},
    {"seed-coder",
     NULL,
     {CONTRACTION "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false,
     false},
    {"jais-2",
     NULL,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES("512") SPACES("256")
          SPACES("128") SPACES("64") SPACES("32") SPACES("16") SPACES("8") SPACES("4") SPACES("1,2") "\\s{1}"},
     false,
     false,
     false},
    {"exaone-moe",
     NULL,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|"
                  "\\s+(?!\\S)|\\s+"},
     false,
     false,
     false},
    {"bailingmoe bailingmoe2 llada-moe",
     NULL,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
     false,
     false,
     false},
    {"gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m", NULL, {GPT4O}, true, false, false},
    {"tekken", NULL, {CASED("") "|\\p{N}|" CASED_TAIL}, true, true, false},
    {"tiny_aya cohere2moe", NULL, {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O}, false, false, false},
    {"youtu",
     NULL,
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
      CASED(CONTRACTION "?") "|\\p{N}|" CASED_TAIL},
     true,
     false,
     false},
    {"kimi-k2",
     NULL,
     {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" HAN_UPPER "*" HAN_LOWER "+" CONTRACTION "?|[^\\r\\n\\p{L}\\p{N}]?" HAN_UPPER "+" HAN_LOWER
      "*" CONTRACTION "?|\\p{N}{1,3}|" TAIL},
     true,
     false,
     false},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     NULL,
     {"\\p{N}{1,3}", CJK, DEEPSEEK("[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")},
     false,
     false,
     false},
    {"spark2_5", NULL, {"\\p{N}{1,3}", CJK, DEEPSEEK("|[\r\n]|\\s+(?!\\S)|\\s+"), "\\p{N}"}, false, false, false},
    {"afmoe",
     NULL,
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
      "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
      DEEPSEEK("[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")},
     false,
     false,
     false},
    {"deepseek-coder", NULL, {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", GGUF_STAGE_DIGITS}, false, false, false},
    {"deepseek-llm",
     NULL,
     {"[\r\n]",
      "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-"
      "ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥ"
      "ῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-"
      "𑣟𞤀-𞥃]+",
      "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", GGUF_STAGE_DIGITS},
     false,
     false,
     false},
    {"falcon",
     NULL,
     {GGUF_STAGE_PUNCTUATION_RUNS, PRETOKENIZE_GPT2, GGUF_STAGE_BYTE_LEVEL, GGUF_STAGE_DIGIT_RUNS, "[0-9][0-9][0-9]"},
     false,
     false,
     false},
    {"starcoder refact smollm codeshell minerva-7b mellum2", NULL, {GGUF_STAGE_DIGITS, PRETOKENIZE_GPT2}, false, false, false},
    {"command-r exaone", "NFC", {GGUF_STAGE_DIGITS, PRETOKENIZE_GPT2}, false, false, false},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 mellum jais trillion "
     "granite-docling",
     NULL,
     {PRETOKENIZE_GPT2},
     false,
     false,
     false},
    {"mpt olmo modern-bert exaone4", "NFC", {PRETOKENIZE_GPT2}, false, false, false},
    {"bloom poro-chat gpt3-finnish", NULL, {BLOOM}, false, false, false},
    {"viking", NULL, {BLOOM, GGUF_STAGE_DIGITS}, false, false, false},
    {"superbpe", NULL, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false, false, false},
    {"chameleon",
     NULL,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", GGUF_STAGE_DIGITS, GGUF_STAGE_PUNCTUATION,
      PRETOKENIZE_GPT2},
     false,
     true,
     false},
    {"gemma4 granite-embed-multi-311m", NULL, {NULL}, false, true, true},
    {"sarvam-moe", NULL, {NULL}, false, false, true},
    {"default", NULL, {"[\\p{P}\\$\\+<=>\\^~\\|]+", PRETOKENIZE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false, false},
};

static bool has_name(const char *names, struct text name) {
    while (*names) {
        size_t length = strcspn(names, " ");
        if (length == name.size_bytes && memcmp(names, name.data, length) == 0)
            return true;
        names += length + (names[length] == ' ');
    }
    return false;
}

const struct gguf_pretokenizer *gguf_pretokenizer_find(struct text name) {
    if (name.size_bytes == 0)
        name = TEXT("default");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (has_name(rows[i].names, name))
            return &rows[i];
    return NULL;
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
}

static json_t *stage_json(const char *stage) {
    struct text name = text_of(stage);
    if (text_is(name, GGUF_STAGE_DIGITS) || text_is(name, GGUF_STAGE_DIGIT_RUNS))
        return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", text_is(name, GGUF_STAGE_DIGITS) ? 1 : 0);
    if (text_is(name, GGUF_STAGE_PUNCTUATION) || text_is(name, GGUF_STAGE_PUNCTUATION_RUNS))
        return json_pack("{s:s, s:s}", "type", "Punctuation", "behavior",
                         text_is(name, GGUF_STAGE_PUNCTUATION) ? "Isolated" : "Contiguous");
    if (text_is(name, GGUF_STAGE_BYTE_LEVEL))
        return byte_level();
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", stage, "behavior", "Isolated", "invert", 0);
}

static json_t *sentencepiece_json(void) {
    return json_pack("{s:{s:s, s:{s:s}, s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]}}", "normalizer", "type", "Replace", "pattern",
                     "String", " ", "content", SPACE_MARK, "decoder", "type", "Sequence", "decoders", "type", "Replace", "pattern",
                     "String", SPACE_MARK, "content", " ", "type", "ByteFallback", "type", "Fuse");
}

json_t *gguf_pretokenizer_json(const struct gguf_pretokenizer *row) {
    CHECK(row != NULL);
    if (row->sentencepiece)
        return sentencepiece_json();
    json_t *stages = json_array();
    bool mapped = false;
    int bad = !stages;
    for (size_t i = 0; i < sizeof(row->stages) / sizeof(row->stages[0]) && row->stages[i]; i++) {
        bad |= json_array_append_new(stages, stage_json(row->stages[i]));
        mapped = mapped || text_is(text_of(row->stages[i]), GGUF_STAGE_BYTE_LEVEL);
    }
    if (!mapped)
        bad |= json_array_append_new(stages, byte_level());
    if (bad) {
        json_decref(stages);
        return NULL;
    }
    json_t *parts = json_pack("{s:{s:s, s:o}, s:o}", "pre_tokenizer", "type", "Sequence", "pretokenizers", stages, "decoder", byte_level());
    if (parts && row->normalizer && json_object_set_new(parts, "normalizer", json_pack("{s:s}", "type", row->normalizer)) != 0) {
        json_decref(parts);
        return NULL;
    }
    return parts;
}
