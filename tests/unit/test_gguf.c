/* test_gguf: headers of GGUF files, good ones of every value type and wrong ones of every kind. */
#include "model_fixture.h"

static struct model_folder folder;
static char path[4096]; /* of the one file that most tests write */

static int set_up(void **state) {
    (void)state;
    model_folder_create(&folder);
    snprintf(path, sizeof path, "%s", model_path(&folder, "m.gguf"));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    model_folder_destroy(&folder);
    return 0;
}

/* ---- what is right ---- */

static void a_small_file(void **state) {
    (void)state;
    struct gguf_file g;
    struct opened o;
    struct text text;
    uint64_t number;
    gguf_init_small(&g);
    assert_gguf_opens(&g, path, &o);
    const struct catalogue *c = o.catalogue;
    assert_int_equal(catalogue_world(c), CATALOGUE_GGUF);
    assert_string_equal(catalogue_path(c), path);
    assert_string_equal(catalogue_directory(c), folder.path);
    assert_int_equal(catalogue_tensor_count(c), 2);
    const struct tensor_entry *a = catalogue_find(c, TEXT("a")), *b = catalogue_find(c, TEXT("b"));
    assert_ptr_equal(a, catalogue_tensor(c, 0));
    assert_ptr_equal(b, catalogue_tensor(c, 1));
    assert_null(catalogue_find(c, TEXT("c")));
    assert_int_equal(a->rank, 1);
    assert_int_equal(a->shape[0], 4);
    assert_int_equal(a->size_bytes, 16);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2); /* outermost first */
    assert_int_equal(b->shape[1], 8);
    assert_int_equal(b->dtype, DTYPE_F16);
    assert_int_equal(b->offset_bytes, a->offset_bytes + 32);
    assert_int_equal(file_set_size_bytes(o.files, 0), a->offset_bytes + 64);
    assert_true(meta_text(catalogue_meta(c, "general.architecture"), &text) && text_is(text, "llama"));
    assert_true(meta_u64(catalogue_meta(c, "llama.block_count"), &number) && number == 2);
    assert_null(catalogue_meta(c, "llama.block_coun"));
    assert_int_equal(catalogue_meta_count(c), 3);
    model_close(&o);
}

static void every_value_type(void **state) {
    (void)state;
    struct opened o;
    ASSERT_OK(model_open(&o, data_path("gguf/types.gguf")), o.error);
    const struct catalogue *c = o.catalogue;
    static const struct {
        const char *key;
        enum meta_type type;
        int64_t number;
    } integers[] = {
        {"kv.u8", META_U64, 255},        {"kv.i8", META_I64, -128},           {"kv.u16", META_U64, 65535},
        {"kv.i16", META_I64, -32768},    {"kv.u32", META_U64, 4294967295u},   {"kv.i32", META_I64, -2147483648LL},
        {"kv.i64", META_I64, INT64_MIN}, {"general.alignment", META_U64, 64},
    };
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        int64_t number;
        assert_int_equal(catalogue_meta(c, integers[i].key)->type, integers[i].type);
        assert_true(meta_i64(catalogue_meta(c, integers[i].key), &number) && number == integers[i].number);
    }
    uint64_t large;
    int64_t signed_number;
    double real;
    bool flag;
    struct text text;
    assert_true(meta_u64(catalogue_meta(c, "kv.u64"), &large) && large == UINT64_MAX);
    assert_false(meta_i64(catalogue_meta(c, "kv.u64"), &signed_number));
    assert_false(meta_f64(catalogue_meta(c, "kv.u64"), &real));
    assert_true(meta_f64(catalogue_meta(c, "kv.f32"), &real) && real == 0.15625);
    assert_true(meta_f64(catalogue_meta(c, "kv.f64"), &real) && real == 1e300);
    assert_true(meta_bool(catalogue_meta(c, "kv.true"), &flag) && flag);
    assert_true(meta_bool(catalogue_meta(c, "kv.false"), &flag) && !flag);
    assert_true(meta_text(catalogue_meta(c, "kv.string"), &text) && text_is(text, "naïve \"quoted\"\n日本語 🦙"));
    assert_true(meta_text(catalogue_meta(c, "kv.empty"), &text) && text.size_bytes == 0 && text.data[0] == 0);
    const struct meta_value *list = catalogue_meta(c, "kv.array.i32");
    assert_int_equal(list->element, META_I64);
    assert_int_equal(list->array.count, 3);
    assert_true(meta_array_i64(list, 0, &signed_number) && signed_number == -1);
    assert_true(meta_array_i64(list, 2, &signed_number) && signed_number == 2147483647);
    assert_false(meta_array_i64(list, 3, &signed_number));
    list = catalogue_meta(c, "kv.array.string");
    assert_int_equal(list->element, META_TEXT);
    assert_true(meta_array_text(list, 0, &text) && text.size_bytes == 0);
    assert_true(meta_array_text(list, 2, &text) && text_is(text, "ß\tc"));
    assert_false(meta_array_f64(list, 0, &real));
    list = catalogue_meta(c, "kv.array.f32");
    assert_true(meta_array_f64(list, 1, &real) && real == -2.0);
    assert_true(meta_array_i64(list, 1, &signed_number) && signed_number == -2);
    assert_false(meta_array_i64(list, 0, &signed_number)); /* 0.5 */
    list = catalogue_meta(c, "kv.array.bool");
    assert_int_equal(list->element, META_BOOL);
    assert_true(meta_array_bool(list, 0, &flag) && flag);
    assert_true(meta_array_bool(list, 1, &flag) && !flag);
    list = catalogue_meta(c, "kv.array.empty");
    assert_int_equal(list->type, META_ARRAY);
    assert_int_equal(list->array.count, 0);
    list = catalogue_meta(c, "kv.array.nested"); /* known, items hidden */
    assert_int_equal(list->type, META_ARRAY);
    assert_int_equal(list->element, META_ARRAY);
    assert_int_equal(list->array.count, 3);
    assert_false(meta_array_i64(list, 0, &signed_number));
    model_close(&o);
}

/* A list of one item of the type, then the value itself. */
static void assert_item(const struct catalogue *c, const char *key, enum meta_type element, int64_t wanted) {
    const struct meta_value *value = catalogue_meta(c, key);
    int64_t number;
    assert_int_equal(value->element, element);
    assert_true(meta_array_i64(value, 0, &number));
    assert_int_equal(number, wanted);
}

static void arrays_of_every_width(void **state) {
    (void)state;
    static const struct {
        uint32_t type, bytes;
        enum meta_type element;
        int64_t wanted;
    } rows[] = {
        {0, 1, META_U64, 255},         {1, 1, META_I64, -1}, {2, 2, META_U64, 65535}, {3, 2, META_I64, -1},
        {4, 4, META_U64, 4294967295u}, {5, 4, META_I64, -1}, {11, 8, META_I64, -1},
    };
    struct gguf_file g;
    struct opened o;
    char key[8];
    gguf_init(&g);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(key, sizeof key, "k%zu", i);
        gguf_key(&g, key, 9);
        put_u32(&g.entries, rows[i].type);
        put_u64(&g.entries, 1);
        put(&g.entries, "\xff\xff\xff\xff\xff\xff\xff\xff", rows[i].bytes);
    }
    assert_gguf_opens(&g, path, &o);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(key, sizeof key, "k%zu", i);
        assert_item(o.catalogue, key, rows[i].element, rows[i].wanted);
    }
    model_close(&o);
}

static void conversions_only_where_exact(void **state) {
    (void)state;
    const struct meta_value one = {.type = META_F64, .f64 = 1.0}, half = {.type = META_F64, .f64 = 0.5},
                            huge = {.type = META_F64, .f64 = 0x1p63}, minus = {.type = META_I64, .i64 = -3},
                            two = {.type = META_U64, .u64 = 2}, wide = {.type = META_U64, .u64 = UINT64_MAX},
                            text = {.type = META_TEXT, .text = TEXT("32")}, null = {.type = META_NULL},
                            yes = {.type = META_BOOL, .boolean = true};
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    struct text t;
    assert_true(meta_u64(&one, &u) && u == 1);
    assert_true(meta_i64(&one, &i) && i == 1);
    assert_false(meta_u64(&half, &u) || meta_i64(&half, &i));
    assert_true(meta_u64(&huge, &u) && u == (uint64_t)1 << 63);
    assert_false(meta_i64(&huge, &i));
    assert_false(meta_u64(&minus, &u));
    assert_true(meta_f64(&minus, &f) && f == -3.0);
    assert_true(meta_f64(&two, &f) && f == 2.0);
    assert_false(meta_f64(&wide, &f) || meta_i64(&wide, &i));
    assert_false(meta_u64(&text, &u) || meta_i64(&text, &i) || meta_f64(&text, &f) || meta_bool(&text, &b));
    assert_false(meta_u64(&null, &u) || meta_text(&null, &t) || meta_bool(&null, &b));
    assert_false(meta_u64(NULL, &u) || meta_i64(NULL, &i) || meta_f64(NULL, &f) || meta_bool(NULL, &b) || meta_text(NULL, &t));
    assert_false(meta_u64(&yes, &u) || meta_f64(&yes, &f));
    assert_true(meta_bool(&yes, &b) && b);
    assert_false(meta_bool(&two, &b) || meta_bool(&one, &b));
}

/* ---- what is cut ---- */

static void d1_cut_at_every_byte(void **state) {
    (void)state;
    struct gguf_file g;
    struct byte_buffer whole;
    gguf_init_small(&g);
    gguf_build(&g, &whole);
    gguf_deinit(&g);
    for (size_t length = 0; length < whole.size_bytes; length++) {
        model_write(path, whole.data, length);
        assert_open_fails(path, STATUS_CORRUPT, length == 0 ? "m.gguf|empty" : "m.gguf|download it again");
    }
    model_write(path, whole.data, whole.size_bytes - 1);
    assert_open_fails(path, STATUS_CORRUPT, "tensor b|needs 32 bytes|the file has|incomplete");
    model_write(path, whole.data, 100);
    assert_open_fails(path, STATUS_CORRUPT, "ends inside the header|metadata entry 2 (llama.block_count)|the file has 100 bytes");
    byte_buffer_deinit(&whole);
}

static void d2_not_a_model(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *parts;
        enum status status;
    } rows[] = {
        {"<!DOCTYPE html><html><body>Not found</body></html>", "web page|download failed", STATUS_CORRUPT},
        {"\n <HTML><head></head></HTML>", "web page|download failed", STATUS_CORRUPT},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer|git lfs pull", STATUS_CORRUPT},
        {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML|download", STATUS_CORRUPT},
        {"{\"error\":\"Repository not found\"}", "error message of a server|download failed", STATUS_CORRUPT},
        {"PK\3\4\n\1\1\1archive/data.pkl", "zip|pickle|safetensors", STATUS_UNSUPPORTED},
        {"\x80\2}q\1(X\1\1\1\1aq\2", "pickle", STATUS_UNSUPPORTED},
        {"tjgg\1\1\1\1", "before GGUF", STATUS_UNSUPPORTED},
        {"\x1f\x8b\b\1\1\1\1", "gzip|unpack", STATUS_UNSUPPORTED},
        {"some words of a text that is no model at all", "does not start with \"GGUF\"", STATUS_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_write_text(path, rows[i].bytes);
        assert_open_fails(path, rows[i].status, rows[i].parts);
    }
    const char *other = model_path(&folder, "m.bin");
    model_write_text(other, "some words of a text that is no model at all");
    assert_open_fails(other, STATUS_UNSUPPORTED, "neither GGUF nor safetensors");
    model_write_text(other, "  {\"architectures\": [\"LlamaForCausalLM\"]}");
    assert_open_fails(other, STATUS_INVALID, "JSON|folder");
}

static void d6_parts_by_bytes(void **state) {
    (void)state;
    static const char *const names[] = {"m.gguf.part1of2", "m.gguf.part-a", "m.gguf-split-a", "m.gguf.part2"};
    static const char *const unfinished[] = {"m.gguf.part", "m.gguf.partial", "m.gguf.incomplete", "m.gguf.crdownload"};
    struct gguf_file g;
    gguf_init_small(&g);
    for (size_t i = 0; i < 4; i++) {
        gguf_write(&g, model_path(&folder, names[i]));
        assert_open_fails(model_path(&folder, names[i]), STATUS_INVALID, "join all parts|cat");
        gguf_write(&g, model_path(&folder, unfinished[i]));
        assert_open_fails(model_path(&folder, unfinished[i]), STATUS_INVALID, "unfinished download");
    }
    struct opened o; /* names that only look a little like it */
    gguf_write(&g, model_path(&folder, "my.partisan"));
    ASSERT_OK(model_open(&o, model_path(&folder, "my.partisan")), o.error);
    model_close(&o);
    gguf_deinit(&g);
}

/* ---- what lies about sizes ---- */

static void d7_dimension_counts(void **state) {
    (void)state;
    static const uint32_t ranks[] = {0, 5, 9, 0xffffffff};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        struct gguf_file g;
        char parts[64];
        gguf_init(&g);
        g.tensor_count = 1;
        put_text(&g.tensors, "t");
        put_u32(&g.tensors, ranks[i]);
        for (unsigned k = 0; k < 12; k++)
            put_u64(&g.tensors, 1);
        snprintf(parts, sizeof parts, "tensor t|%u dimensions|1 to 4", ranks[i]);
        assert_gguf_fails(&g, path, STATUS_CORRUPT, parts);
    }
}

static void d9_products_that_wrap(void **state) {
    (void)state;
    static const uint64_t shapes[][4] = {
        {((uint64_t)1 << 42) + 1, 4, 1, 1},
        {(uint64_t)1 << 63, 2, 1, 1},
        {UINT64_MAX, 2, 1, 1},
        {(uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1},
        {(uint64_t)1 << 32, (uint64_t)1 << 32, 0, 1},
        {0, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {(uint64_t)1 << 31, (uint64_t)1 << 31, 0, 1}, /* no bytes, but a part of the shape would be too large for anything */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct gguf_file g;
        gguf_init(&g);
        gguf_tensor(&g, "t", 4, shapes[i], 0, 0);
        assert_gguf_fails(&g, path, STATUS_CORRUPT, i == 0 ? "tensor t|needs|incomplete" : "tensor t|overflows");
    }
    static const uint64_t offsets[] = {UINT64_MAX - 31, (uint64_t)1 << 63, UINT64_MAX - 1023}; /* sums near 2^64 */
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct gguf_file g;
        gguf_init(&g);
        gguf_tensor(&g, "t", 1, (const uint64_t[]){4}, 0, offsets[i]);
        g.data_bytes = 4096;
        assert_gguf_fails(&g, path, STATUS_CORRUPT, "tensor t");
    }
}

/* A file of a few bytes whose one entry claims to be large: refused as cut, within little memory, and at once. */
static void d10_huge_counts_in_a_tiny_file(void **state) {
    (void)state;
    static const uint64_t lengths[] = {((uint64_t)1 << 30) - 1, (uint64_t)1 << 40, (uint64_t)1 << 61, (uint64_t)1 << 63, UINT64_MAX};
    struct rlimit old = limit_growth((uint64_t)16 << 20);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (uint32_t item = 0; item <= 13; item++) { /* 13: the value is a text, not an array */
            struct gguf_file g;
            gguf_init(&g);
            gguf_key(&g, "k", item == 13 ? 8 : 9);
            if (item != 13)
                put_u32(&g.entries, item);
            put_u64(&g.entries, lengths[i]);
            for (unsigned k = 0; k < 12; k++)
                put_u64(&g.entries, 0);
            assert_gguf_fails(&g, path, STATUS_CORRUPT, "metadata entry 1 (k)|the file has");
        }
        for (unsigned which = 0; which < 3; which++) { /* the counts of the header, and the length of a name */
            struct gguf_file g;
            gguf_init_small(&g);
            if (which == 0)
                g.tensor_count = lengths[i];
            else if (which == 1)
                g.entry_count = lengths[i];
            else
                memcpy(g.tensors.data, &lengths[i], sizeof lengths[i]);
            assert_gguf_fails(&g, path, STATUS_CORRUPT, which < 2 ? "more than its" : "tensor 1");
        }
    }
    allow_growth(old);
}

static void d10_arrays_in_arrays(void **state) {
    (void)state;
    static const unsigned depths[] = {1, 2, 8, 9, 10000};
    for (size_t k = 0; k < sizeof depths / sizeof depths[0]; k++) {
        unsigned deep = depths[k];
        struct gguf_file g;
        struct opened o;
        gguf_init(&g);
        gguf_key(&g, "k", 9);
        for (unsigned i = 0; i < deep; i++) {
            put_u32(&g.entries, 9);
            put_u64(&g.entries, 1);
        }
        put_u32(&g.entries, 0);
        put_u64(&g.entries, 0);
        if (deep > 8) {
            assert_gguf_fails(&g, path, STATUS_CORRUPT, "metadata entry 1 (k)|nested deeper");
        } else {
            assert_gguf_opens(&g, path, &o);
            model_close(&o);
        }
    }
}

static void d11_alignment(void **state) {
    (void)state;
    static const uint32_t bad[] = {0, 3, 48, 1u << 21, 1u << 30, 1u << 31, UINT32_MAX}, good[] = {1, 8, 64, 4096, 1u << 20};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct gguf_file g;
        gguf_init_small(&g);
        gguf_u32(&g, "general.alignment", bad[i]);
        assert_gguf_fails(&g, path, STATUS_CORRUPT, "general.alignment|power of two");
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct gguf_file g;
        struct opened o;
        gguf_init(&g);
        gguf_u32(&g, "general.alignment", good[i]);
        gguf_tensor(&g, "t", 1, (const uint64_t[]){4}, 0, good[i]);
        g.alignment = good[i];
        g.data_bytes = good[i] + 16;
        assert_gguf_opens(&g, path, &o);
        const struct tensor_entry *t = catalogue_tensor(o.catalogue, 0);
        assert_int_equal(t->offset_bytes % good[i], 0);
        assert_int_equal(t->offset_bytes + t->size_bytes, file_set_size_bytes(o.files, 0));
        model_close(&o);
    }
    struct gguf_file g;
    gguf_init_small(&g);
    gguf_text(&g, "general.alignment", "32");
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "general.alignment|must be an integer");
    gguf_init(&g);
    gguf_tensor(&g, "t", 1, (const uint64_t[]){4}, 0, 16);
    g.data_bytes = 64;
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "tensor t|no multiple of general.alignment 32");
}

static void d13_duplicates(void **state) {
    (void)state;
    struct gguf_file g;
    gguf_init_small(&g);
    gguf_u32(&g, "llama.block_count", 3);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "llama.block_count occurs twice|entry 2|entry 4");
    gguf_init_small(&g);
    gguf_tensor(&g, "a", 1, (const uint64_t[]){1}, 0, 64);
    g.data_bytes = 96;
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "tensor a occurs twice|m.gguf at offset|and in");
    gguf_init_small(&g);
    gguf_tensor(&g, "c", 1, (const uint64_t[]){1}, 0, 32);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "tensors b|and c|share bytes");
}

static void d14_tensor_types(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        const char *parts;
    } rows[] = {
        {4, "tensor t|retired type 4|Q4_2|re-convert"},
        {5, "retired type 5|Q4_3"},
        {31, "retired type 31|Q4_0_4_4|re-convert"},
        {36, "retired type 36|IQ4_NL_4_4"},
        {38, "retired type 38|IQ4_NL_8_8"},
        {43, "tensor t|unknown type 43|are read"},
        {200, "tensor t|unknown type 200|Q2_K|are read"},
        {0xffffffff, "unknown type 4294967295"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_file g;
        gguf_init(&g);
        gguf_tensor(&g, "t", 1, (const uint64_t[]){256}, rows[i].type, 0);
        g.data_bytes = 1024;
        assert_gguf_fails(&g, path, STATUS_UNSUPPORTED, rows[i].parts);
    }
    static const uint32_t known[] = {30, 39, 40, 42};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct gguf_file g;
        struct opened o;
        gguf_init(&g);
        gguf_tensor(&g, "t", 1, (const uint64_t[]){256}, known[i], 0);
        g.data_bytes = 1024;
        assert_gguf_opens(&g, path, &o);
        model_close(&o);
    }
    struct gguf_file g; /* rows that are no whole blocks, though the product is */
    gguf_init(&g);
    gguf_tensor(&g, "t", 2, (const uint64_t[]){16, 2}, 2, 0);
    g.data_bytes = 64;
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "tensor t|16 elements|Q4_0 blocks of 32");
}

static void d15_byte_order_and_version(void **state) {
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 99};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct gguf_file g;
        char parts[48];
        gguf_init_small(&g);
        g.version = versions[i];
        snprintf(parts, sizeof parts, "unsupported GGUF version %u ", versions[i]);
        assert_gguf_fails(&g, path, STATUS_UNSUPPORTED, parts);
    }
    struct gguf_file g;
    struct opened o;
    gguf_init_small(&g);
    g.version = 2;
    assert_gguf_opens(&g, path, &o);
    model_close(&o);
    model_write(path, "GGUF\0\0\0\3\0\0\0\0\0\0\0\0", 16);
    assert_open_fails(path, STATUS_UNSUPPORTED, "big-endian");
    model_write(path, "FUGG\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_open_fails(path, STATUS_UNSUPPORTED, "big-endian");
}

static void d16_offset_past_the_end(void **state) {
    (void)state;
    struct gguf_file g;
    gguf_init(&g);
    gguf_tensor(&g, "t", 1, (const uint64_t[]){4}, 0, (uint64_t)1 << 40);
    g.data_bytes = 64;
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "m.gguf: tensor t (F32)|needs 16 bytes from offset 1099511627840|the file has 128 bytes");
}

/* ---- values ---- */

static void bad_values(void **state) {
    (void)state;
    struct gguf_file g;
    gguf_init(&g);
    gguf_key(&g, "flag", 7);
    put(&g.entries, "\2", 1);
    put_u64(&g.entries, 0);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "metadata entry 1 (flag)|bool is stored as 2");
    gguf_init(&g);
    gguf_key(&g, "x", 13);
    put_u64(&g.entries, 0);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "metadata entry 1 (x)|unknown value type 13");
    gguf_init(&g);
    gguf_key(&g, "x", 9);
    put_u32(&g.entries, 77);
    put_u64(&g.entries, 0);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "metadata entry 1 (x)|unknown item type 77");
    gguf_init(&g);
    gguf_key(&g, "flags", 9);
    put_u32(&g.entries, 7);
    put_u64(&g.entries, 3);
    put(&g.entries, "\1\0\3", 3);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "bool is stored as 3");
}

/* Long lists are read through a window: texts lie across its edge, some are longer than it. */
static void long_lists_and_long_texts(void **state) {
    (void)state;
    enum { COUNT = 150000, LONG_BYTES = 200000 };
    struct gguf_file g;
    struct opened o;
    struct text text;
    char token[24];
    static char longest[LONG_BYTES + 1];
    memset(longest, 'x', LONG_BYTES);
    gguf_init(&g);
    gguf_key(&g, "tokens", 9);
    put_u32(&g.entries, 8);
    put_u64(&g.entries, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(token, sizeof token, "%*u", (int)(i % 11), i);
        put_text(&g.entries, i == 77777 ? longest : token);
    }
    gguf_text(&g, "template", longest);
    gguf_u32(&g, "after", 5);
    assert_gguf_opens(&g, path, &o);
    const struct meta_value *tokens = catalogue_meta(o.catalogue, "tokens");
    assert_int_equal(tokens->array.count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(token, sizeof token, "%*u", (int)(i % 11), i);
        assert_true(meta_array_text(tokens, i, &text) && text_is(text, i == 77777 ? longest : token));
    }
    assert_true(meta_text(catalogue_meta(o.catalogue, "template"), &text) && text_is(text, longest));
    uint64_t before = catalogue_size_bytes(o.catalogue), heap = memory_owner_bytes(MEMORY_OTHER), number;
    assert_true(before < 2500000); /* about 11 bytes a token, and two long texts */
    catalogue_drop_arrays(o.catalogue, COUNT);
    assert_int_equal(catalogue_size_bytes(o.catalogue), before);
    catalogue_drop_arrays(o.catalogue, 1024);
    assert_int_equal(tokens->type, META_NULL);
    assert_true(catalogue_size_bytes(o.catalogue) + 1000000 < before);
    assert_true(memory_owner_bytes(MEMORY_OTHER) + 1000000 < heap);
    assert_true(meta_text(catalogue_meta(o.catalogue, "template"), &text) && text_is(text, longest)); /* the rest stays */
    assert_true(meta_u64(catalogue_meta(o.catalogue, "after"), &number) && number == 5);
    model_close(&o);
}

static void names_of_any_length(void **state) {
    (void)state;
    static char name[70001];
    struct gguf_file g;
    struct opened o;
    memset(name, 'n', 65535);
    gguf_init(&g);
    gguf_u32(&g, name, 1);
    gguf_tensor(&g, name, 1, (const uint64_t[]){0}, 0, 0);
    assert_gguf_opens(&g, path, &o);
    assert_non_null(catalogue_find(o.catalogue, text_of(name)));
    assert_int_equal(catalogue_tensor(o.catalogue, 0)->size_bytes, 0);
    model_close(&o);
    memset(name, 'n', 70000);
    gguf_init(&g);
    gguf_u32(&g, name, 1);
    assert_gguf_fails(&g, path, STATUS_CORRUPT, "70000 bytes|65535");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_file),
        cmocka_unit_test(every_value_type),
        cmocka_unit_test(arrays_of_every_width),
        cmocka_unit_test(conversions_only_where_exact),
        cmocka_unit_test(d1_cut_at_every_byte),
        cmocka_unit_test(d2_not_a_model),
        cmocka_unit_test(d6_parts_by_bytes),
        cmocka_unit_test(d7_dimension_counts),
        cmocka_unit_test(d9_products_that_wrap),
        cmocka_unit_test(d10_huge_counts_in_a_tiny_file),
        cmocka_unit_test(d10_arrays_in_arrays),
        cmocka_unit_test(d11_alignment),
        cmocka_unit_test(d13_duplicates),
        cmocka_unit_test(d14_tensor_types),
        cmocka_unit_test(d15_byte_order_and_version),
        cmocka_unit_test(d16_offset_past_the_end),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(long_lists_and_long_texts),
        cmocka_unit_test(names_of_any_length),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
